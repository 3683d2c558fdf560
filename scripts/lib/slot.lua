-- lib/slot.lua: while its slot moves to another node of a cluster, a script that writes does nothing.
--
-- Redis moves a slot key by key. Before it runs a script it looks whether all keys in KEYS are there, and refuses it
-- otherwise (TRYAGAIN, ASK). But a key that is not in KEYS, and one that the script itself has emptied, so that it is
-- gone, it looks for only when the script touches it, half-way. So such scripts (those that find keys in other keys, and
-- those that may empty a key and fill it again) begin with `require_slot`. It asks for a key that is there and for one
-- that never is: nothing to a slot at rest, but refused while it moves, as long as the move lasts.

local function require_slot(key)
  redis.call('EXISTS', key, key .. ':never')
end
