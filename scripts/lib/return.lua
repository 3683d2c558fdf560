-- lib/return.lua: gives erased members their hides back.
-- Uses: lib/hides.lua, lib/erasures.lua, lib/hidden.lua
-- Loader: load_hides

-- Notes that an erased member has data again, and gives it back the hide that is stored with its erasure, if the hide has
-- not ended (`now`: ms). From then on the script honours the hide in what it writes.
local function return_hide(head, registry, erasure, member, now)
  if erasure.has_data then return end
  local hide = erasure.hide
  if hide ~= '' and not has_ended(cmsgpack.unpack(hide), now) then
    local own = hides_of(head, registry)
    set_hide(own, member, hide)
    if not hides then open_hides(call('HGET', head, 'hides'), registry) end
    hides.marks[member] = tonumber(call('ZSCORE', own.journal, member))
  end
  erasure.has_data = true
  keep_hide(registry, erasure, '')
end
