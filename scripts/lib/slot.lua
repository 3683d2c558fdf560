-- lib/slot.lua: while its slot moves to another node of a cluster, a script that writes does nothing.
--
-- Redis moves a slot key by key. Before it runs a script it checks whether all keys in KEYS exist, and otherwise refuses the
-- script (TRYAGAIN, ASK). But it checks a key that is not in KEYS, or that the script itself has emptied, only when the
-- script touches the key, half-way. So scripts that find keys in other keys, and scripts that may empty a key and fill it
-- again, begin with `require_slot`. It asks for a key that exists and for one that never does. That does nothing in a slot
-- at rest, and is refused for as long as the slot moves.

local function require_slot(key)
  redis.call('EXISTS', key, key .. ':never')
end
