// What pages do beyond links and forms. Everything works without it, with more clicks.

const find = selector => document.querySelector(selector)

// Keys: `/` goes to the search of the page, Ctrl or ⌘ with K opens the palette.
document.addEventListener('keydown', event => {
  const isTyping = event.target.closest?.('input, textarea, select')
  const search = find('[data-search]')
  if (event.key === '/' && search && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault()
    search.focus()
  }
  if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && find('.finder')) {
    event.preventDefault()
    openPalette()
  }
  if (event.key === 'Escape') closeMenus()
})
find('.finder')?.addEventListener('click', event => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  openPalette()
})

// Menus close when something else is clicked, and only one is open.
function closeMenus(but) {
  for (const menu of document.querySelectorAll('.menu[open]')) if (menu !== but) menu.open = false
}
document.addEventListener('click', event => closeMenus(event.target.closest('.menu')))

// A choice takes effect at once.
for (const select of document.querySelectorAll('select[data-submit]')) {
  select.addEventListener('change', () => select.form.requestSubmit())
  const button = select.form.querySelector('button:not([name])')
  if (button) button.hidden = true
}

// A page of something under way is read again and again.
function renewLater() {
  if (find('[data-reload]')) setTimeout(renew, 3000)
}
async function renew() {
  const response = await fetch(location.href, { redirect: 'manual', cache: 'no-store' }).catch(() => null)
  if (response?.ok) {
    const page = new DOMParser().parseFromString(await response.text(), 'text/html')
    find('main').replaceChildren(...page.querySelector('main').childNodes)
  }
  renewLater()
}
renewLater()

// One box ticks all.
for (const all of document.querySelectorAll('[data-all]')) {
  all.hidden = false
  all.addEventListener('change', () => {
    for (const box of document.querySelectorAll(`input[name="${all.dataset.all}"]`)) box.checked = all.checked
  })
}

// Copy buttons; `data-copy` is the text, or `#id` of the element that has it.
document.addEventListener('click', async event => {
  const button = event.target.closest('[data-copy]')
  if (!button) return
  const { copy } = button.dataset
  const text = copy.startsWith('#') ? (document.getElementById(copy.slice(1))?.textContent ?? copy) : copy
  await navigator.clipboard.writeText(text)
  const before = button.textContent
  button.textContent = 'Copied'
  setTimeout(() => (button.textContent = before), 1500)
})
// Without a secure context there is no clipboard.
if (navigator.clipboard) for (const button of document.querySelectorAll('[data-copy]')) button.hidden = false
else document.documentElement.dataset.plain = ''

// "9 s ago" grows older.
const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]
const loadedAt = performance.now()
const servedAt = Date.parse(document.body.dataset.now ?? '')
function age() {
  const now = servedAt + performance.now() - loadedAt
  for (const time of document.querySelectorAll('time[data-ago]')) {
    const seconds = Math.round((now - Date.parse(time.dateTime)) / 1000)
    if (seconds < 0) continue
    const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, 's']
    time.textContent = `${Math.floor(seconds / size)} ${unit} ago`
  }
}
if (servedAt) setInterval(age, 5000)

// The palette: the page `/console/find`, in a dialog.
let palette
function openPalette() {
  palette ??= makePalette()
  palette.showModal()
  palette.querySelector('input').select()
}
function makePalette() {
  const page = find('.finder').href
  const dialog = document.createElement('dialog')
  dialog.className = 'find'
  dialog.setAttribute('aria-label', 'Find')
  const form = document.createElement('form')
  form.action = page
  const input = document.createElement('input')
  Object.assign(input, { name: 'q', type: 'search', autocomplete: 'off', placeholder: 'A board, a member, a page' })
  input.setAttribute('aria-label', 'A board, a member, a page')
  const found = document.createElement('div')
  found.setAttribute('role', 'status')
  form.append(input, found)
  dialog.append(form)
  document.body.append(dialog)
  let asked = 0
  let timer
  async function ask() {
    const number = ++asked
    const response = await fetch(`${page}?${new URLSearchParams({ q: input.value })}`, { redirect: 'manual' })
    if (!response.ok || number !== asked) return
    const results = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById('found')
    if (results) {
      // Links are relative to the page that they come from.
      for (const link of results.querySelectorAll('a')) link.href = new URL(link.getAttribute('href'), page)
      found.replaceChildren(...results.childNodes)
    }
  }
  input.addEventListener('input', () => {
    clearTimeout(timer)
    timer = setTimeout(ask, 150)
  })
  dialog.addEventListener('keydown', event => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
    event.preventDefault()
    const stops = [input, ...found.querySelectorAll('a')]
    const step = event.key === 'ArrowDown' ? 1 : stops.length - 1
    stops[(stops.indexOf(document.activeElement) + step) % stops.length].focus()
  })
  form.addEventListener('submit', event => {
    const first = found.querySelector('a')
    if (!first) return
    event.preventDefault()
    location.assign(first.href)
  })
  dialog.addEventListener('click', event => event.target === dialog && dialog.close())
  return dialog
}
