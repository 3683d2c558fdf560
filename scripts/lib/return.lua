-- lib/return.lua: giving erased members their hides back.
-- Uses: lib/hides.lua, lib/erasures.lua, lib/hidden.lua
-- Loader: load_hides

-- Gives a member that has data again the hide back that lies with its erasure, if the hide has not ended (`now`: ms). From then on
-- the script follows the hide in what it writes.
local function return_hide(head, registry, erasure, member, now)
  if erasure.hide == '' then return end
  local own, ends = hides_of(head, registry), cmsgpack.unpack(erasure.hide)['until']
  if not ends or ends > now then
    set_hide(own, member, erasure.hide)
    if not hides then open_hides(call('HGET', head, 'hides'), registry) end
    hides.marks[member] = tonumber(call('ZSCORE', own.journal, member))
  end
  keep_hide(registry, erasure, '')
end
