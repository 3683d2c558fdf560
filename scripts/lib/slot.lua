-- lib/slot.lua: stops a script that writes while its slot moves to another node of a cluster.
--
-- Redis moves a slot key by key. Before it runs a script it checks that all keys in KEYS exist, and otherwise refuses the
-- script (TRYAGAIN, ASK). But it checks a key that is not in KEYS, or that the script itself has emptied, only when the
-- script touches the key, halfway. So scripts that find keys in other keys, and scripts that may empty a key and fill it
-- again, begin with `require_slot`. It asks for a key that exists and for one that never does. That has no effect in a slot
-- at rest, and is refused for as long as the slot moves.

local function require_slot(key)
  redis.call('EXISTS', key, key .. ':never')
end
