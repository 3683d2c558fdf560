//! Reads `src/`, and finds what its files use of each other: imports, paths and method calls.
//!
//! To find out which type's method a call means, it takes the types that the declarations of variables, fields and results name
//! ([`Uses::types_of`]). Where it knows none, it assumes the only type that has a method of this name, unless the name is common in other
//! crates ([`COMMON`]). In macros it searches the text.
//!
//! Not found: calls of trait methods (but the import of the trait is); calls on a value of an unknown type, if several types have a method
//! of this name; what macros generate, except for paths to it. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use syn::visit::{self, Visit};
use syn::{Expr, Fields, FnArg, ImplItem, Item, Member, Pat, ReturnType, Signature, Type, UseTree};

use super::{code, files};
use crate::harness::repository;

/// Names of methods that types of other crates have, too.
const COMMON: &[&str] = &[
    "and",
    "clear",
    "config",
    "copied",
    "details",
    "difference",
    "fold",
    "iter",
    "join",
    "keys",
    "kind",
    "last",
    "layer",
    "load",
    "lock",
    "merge",
    "named",
    "parse",
    "path",
    "poll",
    "query",
    "random",
    "read",
    "register",
    "remaining",
    "remove",
    "repeat",
    "replace",
    "reserve",
    "send",
    "skip",
    "split_at",
    "status",
    "update",
    "wake",
    "windows",
];

/// The path of a file in `src/`, and the name of a type in it.
type TypeId = (String, String);
type Segments = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    items: BTreeSet<String>,
    /// The paths of what it imports, by their names in it.
    imports: BTreeMap<String, Segments>,
}

/// A method, or an associated function, that is no trait's.
struct Method {
    of: TypeId,
    file: String,
    /// The types that the type of its result names.
    result: BTreeSet<TypeId>,
}

/// All of `src/`.
#[derive(Default)]
pub struct Sources {
    /// The module, the items and the text of each file.
    files: BTreeMap<String, (Segments, Vec<Item>, String)>,
    modules: BTreeMap<Segments, Module>,
    methods: BTreeMap<String, Vec<Method>>,
    /// By the name of a field, the types that have it, each with those that the type of the field names.
    fields: BTreeMap<String, BTreeMap<TypeId, BTreeSet<TypeId>>>,
}

impl Sources {
    pub fn read() -> Self {
        let folder = repository().join("src");
        let files = files(&folder, "rs").into_iter().map(|(path, text)| {
            let file = path.strip_prefix(&folder).unwrap().to_str().unwrap();
            (file.to_owned(), code(&text))
        });
        Self::of(files.filter(|(file, _)| !file.ends_with("/tests.rs")))
    }

    fn of(files: impl Iterator<Item = (String, String)>) -> Self {
        let mut sources = Self::default();
        let mut read = BTreeMap::new();
        for (file, text) in files {
            let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
            let module = match module {
                "lib" => Segments::new(),
                module => module.split('/').map(str::to_owned).collect(),
            };
            let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
            sources.add_module(&file, &module, &parsed.items);
            read.insert(file, (module, parsed.items, text));
        }
        for (file, (module, items, _)) in &read {
            sources.add_types(file, module, items);
        }
        Self {
            files: read,
            ..sources
        }
    }

    /// The files, each with its code.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter();
        files.map(|(file, (_, _, text))| (file.as_str(), text.as_str()))
    }

    /// Where types have methods that are no trait's: the name of the type, its file, and that of a method.
    pub fn impls(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let methods = self.methods.values().flatten();
        methods.map(|method| {
            (
                method.of.1.as_str(),
                method.of.0.as_str(),
                method.file.as_str(),
            )
        })
    }

    /// What a file uses of others, and of itself: files, and names in them.
    pub fn used_by(&self, file: &str) -> BTreeSet<(String, String)> {
        let (module, items, _) = &self.files[file];
        let mut uses = Uses {
            sources: self,
            module: module.clone(),
            own: TypeId::default(),
            variables: BTreeMap::new(),
            found: BTreeSet::new(),
        };
        for item in items {
            uses.visit_item(item);
        }
        uses.found
    }

    fn add_module(&mut self, file: &str, path: &[String], items: &[Item]) {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        for item in items {
            let name = match item {
                Item::Const(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Fn(item) => &item.sig.ident,
                Item::Static(item) => &item.ident,
                Item::Struct(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                Item::Use(item) => {
                    module.imports.extend(leaves(&item.tree));
                    continue;
                }
                Item::Mod(item) => {
                    if let Some((_, items)) = &item.content {
                        self.add_module(file, &joined(path, &item.ident.to_string()), items);
                    }
                    continue;
                }
                _ => continue,
            };
            module.items.insert(name.to_string());
        }
        self.modules.insert(path.to_owned(), module);
    }

    fn add_types(&mut self, file: &str, module: &[String], items: &[Item]) {
        for item in items {
            match item {
                Item::Struct(item) => {
                    let of = (file.to_owned(), item.ident.to_string());
                    let Fields::Named(fields) = &item.fields else {
                        continue;
                    };
                    for field in &fields.named {
                        let types = self.types_in(module, &of, &field.ty);
                        let name = field.ident.as_ref().unwrap().to_string();
                        let named = self.fields.entry(name).or_default();
                        named.insert(of.clone(), types);
                    }
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let of = self.type_of_impl(module, item);
                    for item in &item.items {
                        let ImplItem::Fn(item) = item else { continue };
                        let result = match &item.sig.output {
                            ReturnType::Default => BTreeSet::new(),
                            ReturnType::Type(_, result) => self.types_in(module, &of, result),
                        };
                        let name = item.sig.ident.to_string();
                        self.methods.entry(name).or_default().push(Method {
                            of: of.clone(),
                            file: file.to_owned(),
                            result,
                        });
                    }
                }
                Item::Mod(item) => {
                    if let Some((_, items)) = &item.content {
                        self.add_types(file, &joined(module, &item.ident.to_string()), items);
                    }
                }
                _ => {}
            }
        }
    }

    /// Resolves a path that stands in a module: the file that it leads to, and the rest of the path, which is in this file. `None`: it
    /// leads to another crate, or to a variable.
    fn find(&self, module: &[String], path: &[String]) -> Option<(&str, Segments)> {
        let (first, after_first) = path.split_first()?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (Segments::new(), after_first),
            "standings" if module == ["main"] => (Segments::new(), after_first),
            "self" => (module.to_owned(), after_first),
            "super" => {
                let parent = &module[..module.len().checked_sub(1)?];
                if after_first.first()? == "super" {
                    return self.find(parent, after_first);
                }
                (parent.to_owned(), after_first)
            }
            name => {
                let here = self.modules.get(module)?;
                let is_here = here.items.contains(name)
                    || here.imports.contains_key(name)
                    || self.modules.contains_key(&joined(module, name));
                if !is_here {
                    return None;
                }
                (module.to_owned(), path)
            }
        };
        while let Some((first, after_first)) = rest.split_first() {
            let here = self.modules.get(&at)?;
            let (inner, import) = (joined(&at, first), here.imports.get(first));
            let is_item = here.items.contains(first);
            // A module may have a function of its own name beside it.
            let is_module = !after_first.is_empty() || !is_item && import.is_none();
            if is_module && self.modules.contains_key(&inner) {
                (at, rest) = (inner, after_first);
            } else if let Some(import) = import.filter(|_| !is_item) {
                let path = [import.as_slice(), after_first].concat();
                return if path == rest {
                    None
                } else {
                    self.find(&at, &path)
                };
            } else {
                break;
            }
        }
        Some((&self.modules.get(&at)?.file, rest.to_owned()))
    }

    fn type_of_impl(&self, module: &[String], item: &syn::ItemImpl) -> TypeId {
        let Type::Path(of) = &*item.self_ty else {
            return TypeId::default();
        };
        match self.find(module, &segments(&of.path)) {
            Some((file, rest)) if rest.len() == 1 => (file.to_owned(), rest[0].clone()),
            // A macro makes it.
            _ => {
                let file = self.modules[module].file.clone();
                (file, segments(&of.path).pop().unwrap_or_default())
            }
        }
    }

    /// The types of ours that a type names, such as `Board` in `Option<Arc<Board>>`.
    fn types_in(&self, module: &[String], own: &TypeId, of: &Type) -> BTreeSet<TypeId> {
        struct Named<'a> {
            sources: &'a Sources,
            module: &'a [String],
            own: &'a TypeId,
            types: BTreeSet<TypeId>,
        }
        impl<'ast> Visit<'ast> for Named<'_> {
            fn visit_path(&mut self, path: &'ast syn::Path) {
                let segments = segments(path);
                if segments == ["Self"] {
                    self.types.insert(self.own.clone());
                } else if let Some((file, rest)) = self.sources.find(self.module, &segments)
                    && let [name] = rest.as_slice()
                {
                    self.types.insert((file.to_owned(), name.clone()));
                }
                visit::visit_path(self, path);
            }
        }
        let mut named = Named {
            sources: self,
            module,
            own,
            types: BTreeSet::new(),
        };
        named.visit_type(of);
        named.types
    }

    /// The methods that a call may mean, on a value of one of these types, or of an unknown type if there are none.
    fn methods<'a>(&'a self, name: &str, types: &BTreeSet<TypeId>) -> Vec<&'a Method> {
        let named = self
            .methods
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default();
        match named {
            [only] if types.is_empty() && !COMMON.contains(&name) => vec![only],
            _ => named.iter().filter(|it| types.contains(&it.of)).collect(),
        }
    }
}

fn joined(path: &[String], name: &str) -> Segments {
    [path, &[name.to_owned()]].concat()
}

fn segments(path: &syn::Path) -> Segments {
    let segments = path.segments.iter();
    segments.map(|segment| segment.ident.to_string()).collect()
}

/// The names that an import brings, each with its path.
fn leaves(tree: &UseTree) -> Vec<(String, Segments)> {
    let leaf = |name: &syn::Ident, path: &syn::Ident| (name.to_string(), vec![path.to_string()]);
    match tree {
        UseTree::Name(name) => vec![leaf(&name.ident, &name.ident)],
        UseTree::Rename(name) => vec![leaf(&name.rename, &name.ident)],
        UseTree::Glob(_) => vec![("*".to_owned(), vec!["*".to_owned()])],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            let inner = leaves(&path.tree).into_iter().map(|(name, path)| {
                let is_itself = path == ["self"];
                let name = if name == "self" { first.clone() } else { name };
                let path = if is_itself { Segments::new() } else { path };
                (name, [vec![first.clone()], path].concat())
            });
            inner.collect()
        }
    }
}

/// What a file uses.
struct Uses<'a> {
    sources: &'a Sources,
    module: Segments,
    /// The type whose methods are read.
    own: TypeId,
    /// The types that the variables of a function may have.
    variables: BTreeMap<String, BTreeSet<TypeId>>,
    /// Files, and names in them.
    found: BTreeSet<(String, String)>,
}

impl Uses<'_> {
    fn add_path(&mut self, path: &[String]) {
        if let [own, name] = path
            && own == "Self"
        {
            let own = BTreeSet::from([self.own.clone()]);
            return self.add_methods(name, &own);
        }
        if let Some((file, rest)) = self.sources.find(&self.module, path)
            && let Some(item) = rest.first()
        {
            self.found.insert((file.to_owned(), item.clone()));
            if let Some(name) = rest.get(1) {
                let of = BTreeSet::from([(file.to_owned(), item.clone())]);
                self.add_methods(name, &of);
            }
        }
    }

    fn add_methods(&mut self, name: &str, types: &BTreeSet<TypeId>) {
        for method in self.sources.methods(name, types) {
            let name = format!("{}::{name}", method.of.1);
            self.found.insert((method.file.clone(), name));
        }
    }

    fn results(&self, name: &str, types: &BTreeSet<TypeId>) -> Option<BTreeSet<TypeId>> {
        let methods = self.sources.methods(name, types);
        let results = methods.iter().flat_map(|method| method.result.clone());
        (!methods.is_empty()).then(|| results.collect())
    }

    /// The types that a value may have, as far as declarations tell.
    fn types_of(&self, value: &Expr) -> BTreeSet<TypeId> {
        match value {
            Expr::Await(value) => self.types_of(&value.base),
            Expr::Index(value) => self.types_of(&value.expr),
            Expr::Paren(value) => self.types_of(&value.expr),
            Expr::Reference(value) => self.types_of(&value.expr),
            Expr::Try(value) => self.types_of(&value.expr),
            Expr::Unary(value) => self.types_of(&value.expr),
            Expr::Path(value) => match segments(&value.path).as_slice() {
                [name] => self.types_of_variable(name),
                _ => BTreeSet::new(),
            },
            Expr::Field(value) => match &value.member {
                Member::Named(name) => {
                    self.types_of_field(&name.to_string(), &self.types_of(&value.base))
                }
                Member::Unnamed(_) => BTreeSet::new(),
            },
            Expr::Call(call) => {
                let Expr::Path(called) = &*call.func else {
                    return BTreeSet::new();
                };
                let called = segments(&called.path);
                let (of, name) = match self.sources.find(&self.module, &called) {
                    Some((file, rest)) if rest.len() == 2 => (
                        (file.to_owned(), rest[0].clone()),
                        &called[called.len() - 1],
                    ),
                    Some(_) => return BTreeSet::new(),
                    None if called.len() == 2 && called[0] == "Self" => {
                        (self.own.clone(), &called[1])
                    }
                    // Of another crate: it may return what it is given, as `Some` and `Arc::clone` do.
                    None => return call.args.iter().flat_map(|it| self.types_of(it)).collect(),
                };
                self.results(name, &BTreeSet::from([of]))
                    .unwrap_or_default()
            }
            Expr::MethodCall(call) => {
                let types = self.types_of(&call.receiver);
                // A method of another crate may return what is in the value, as `clone` and `lock` do.
                let results = self.results(&call.method.to_string(), &types);
                results.unwrap_or(types)
            }
            _ => BTreeSet::new(),
        }
    }

    fn types_of_variable(&self, name: &str) -> BTreeSet<TypeId> {
        match self.variables.get(name) {
            _ if name == "self" => BTreeSet::from([self.own.clone()]),
            Some(types) if !types.is_empty() => types.clone(),
            // It may be named as the field that it comes from, such as `store`.
            _ => self.types_of_field(name, &BTreeSet::new()),
        }
    }

    /// The types that a field of these types names. If none of them has such a field, what all fields of this name agree on.
    fn types_of_field(&self, name: &str, of: &BTreeSet<TypeId>) -> BTreeSet<TypeId> {
        let Some(fields) = self.sources.fields.get(name) else {
            return BTreeSet::new();
        };
        let known: Vec<_> = fields
            .iter()
            .filter(|(own, _)| of.contains(own))
            .map(|(_, types)| types)
            .collect();
        let any: BTreeSet<_> = fields.values().collect();
        match known.as_slice() {
            [] if any.len() > 1 => BTreeSet::new(),
            [] => any.into_iter().flatten().cloned().collect(),
            known => known.iter().copied().flatten().cloned().collect(),
        }
    }

    fn bind(&mut self, pattern: &Pat, types: BTreeSet<TypeId>) {
        match pattern {
            Pat::Ident(name) => {
                self.variables.insert(name.ident.to_string(), types);
            }
            Pat::Reference(inner) => self.bind(&inner.pat, types),
            Pat::TupleStruct(inner) if inner.elems.len() == 1 => self.bind(&inner.elems[0], types),
            Pat::Type(inner) => {
                let types = self.sources.types_in(&self.module, &self.own, &inner.ty);
                self.bind(&inner.pat, types);
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        for (_, path) in leaves(&item.tree) {
            self.add_path(&path);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.own = self.sources.type_of_impl(&self.module, item);
        visit::visit_item_impl(self, item);
        self.own = TypeId::default();
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.variables.clear();
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input {
                let types = self.sources.types_in(&self.module, &self.own, &input.ty);
                self.bind(&input.pat, types);
            }
        }
        visit::visit_signature(self, signature);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        visit::visit_local(self, local);
        match (&local.pat, local.init.as_ref().map(|init| &*init.expr)) {
            (Pat::Tuple(names), Some(Expr::Tuple(values))) => {
                for (name, value) in names.elems.iter().zip(&values.elems) {
                    self.bind(name, self.types_of(value));
                }
            }
            (name, Some(value)) => self.bind(name, self.types_of(value)),
            (name, None) => self.bind(name, BTreeSet::new()),
        }
    }

    fn visit_expr_let(&mut self, value: &'ast syn::ExprLet) {
        self.bind(&value.pat, self.types_of(&value.expr));
        visit::visit_expr_let(self, value);
    }

    fn visit_expr_for_loop(&mut self, value: &'ast syn::ExprForLoop) {
        self.bind(&value.pat, self.types_of(&value.expr));
        visit::visit_expr_for_loop(self, value);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add_path(&segments(path));
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let types = self.types_of(&call.receiver);
        self.add_methods(&call.method.to_string(), &types);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, macro_call: &'ast syn::Macro) {
        static PATHS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+(\s*::\s*\w+)+").unwrap());
        static CALLS: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(\w*)\s*\.\s*(\w+)\s*(\(|::)").unwrap());
        let text = macro_call.tokens.to_string();
        for path in PATHS.find_iter(&text) {
            let path: Segments = path
                .as_str()
                .split("::")
                .map(|part| part.trim().to_owned())
                .collect();
            self.add_path(&path);
        }
        for call in CALLS.captures_iter(&text) {
            let types = self.types_of_variable(&call[1]);
            self.add_methods(&call[2], &types);
        }
        visit::visit_macro(self, macro_call);
    }
}

#[test]
fn paths_and_calls_are_found() {
    let files = [
        ("lib.rs", "pub mod a; mod b; mod c;"),
        (
            "a/mod.rs",
            "mod inner; pub use self::inner::Inner; pub struct A { pub b: Arc<crate::b::B> }",
        ),
        (
            "a/inner.rs",
            "pub struct Inner; impl Inner { pub fn made() -> Self {} pub fn lock(&self) {} pub fn only(&self) -> Option<super::A> {} }",
        ),
        (
            "b.rs",
            "pub struct B; impl B { pub fn run(&self) {} pub fn stop(&self) {} } pub fn free() {}",
        ),
        ("c.rs", ""),
    ];
    let used = |code: &str| {
        let files = files
            .map(|(file, text)| (file.to_owned(), text.to_owned()))
            .into_iter()
            .chain([("c.rs".to_owned(), code.to_owned())]);
        let used = Sources::of(files)
            .used_by("c.rs")
            .into_iter()
            .filter(|(file, _)| file != "c.rs");
        used.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
    };
    let cases = [
        ("use crate::{a::{A, Inner as I}, b};", "Inner A"),
        (
            "use crate::{a, b}; fn f() { b::free(); a::inner::gone() }",
            "gone free",
        ),
        (
            "use super::a; fn f() { a::Inner::made(); }",
            "Inner Inner::made",
        ),
        ("fn f(a: &crate::a::A) { a.b.run() }", "A B::run"),
        (
            "fn f(x: X) { if let Some(a) = crate::a::Inner::made().only() { a.b.clone().stop() } }",
            "Inner Inner::made Inner::only B::stop",
        ),
        ("fn f(x: X) { x.only(); x.lock() }", "Inner::only"),
        (
            "struct C { b: Vec<crate::b::B> } impl C { fn f(&self) { m!(for b in &self.b => { b.run() }) } }",
            "B B::run",
        ),
        ("struct C; impl C { fn only(&self) { self.only() } }", ""),
        (
            "fn f() { m!(crate::a::Inner::made()) }",
            "Inner Inner::made",
        ),
    ];
    for (code, expected) in cases {
        assert_eq!(used(code), expected, "{code}");
    }
}
