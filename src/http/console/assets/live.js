// Keeps a running standing up to date: it asks for the page again, and shows its entries if they have changed. It waits while
// nobody looks at the page, or after `Pause`.

const INTERVAL_MS = 2000
const INTERVAL_MS_MAX = 60_000
const ANSWER_MS = 35_000 // The service answers within 30 s.

const section = document.querySelector('[data-live]')
const bar = document.createElement('p')
const button = document.createElement('button')
const state = document.createElement('span')
button.type = 'button'
button.className = 'quiet'
state.setAttribute('role', 'status')
state.className = 'small'
bar.append(button, ' ', state)
section.before(bar)

let isPaused = false
let pauseMs = INTERVAL_MS
let timer

function show() {
  button.textContent = isPaused ? 'Go on' : 'Pause'
}

function say(text) {
  if (state.textContent !== text) state.textContent = text
}

/** Reads the page anew; returns whether to go on. */
async function refresh() {
  const signal = AbortSignal.timeout(ANSWER_MS)
  const response = await fetch(location.href, { redirect: 'manual', cache: 'no-store', signal })
  if (response.type === 'opaqueredirect') {
    say('You are signed out: load the page again.')
    return false
  }
  if (!response.ok) throw new Error(`status ${response.status}`)
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  const found = page.getElementById('live')
  if (!found) throw new Error('another page')
  if (found.innerHTML !== section.innerHTML) keepFocus(() => section.replaceChildren(...found.childNodes))
  if (!found.hasAttribute('data-live')) {
    say('The period is over.')
    return false
  }
  return true
}

/** Changes the section; who has tabbed to a link in it stays there. */
function keepFocus(change) {
  const focused = section.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null
  const [left] = [section.querySelector('.scroll')?.scrollLeft ?? 0]
  change()
  const scroll = section.querySelector('.scroll')
  if (scroll) scroll.scrollLeft = left
  if (focused) section.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true })
}

async function run() {
  clearTimeout(timer)
  if (isPaused || document.hidden) return
  let goesOn = true
  try {
    goesOn = await refresh()
    pauseMs = INTERVAL_MS
    if (goesOn) say('Up to date')
  } catch {
    pauseMs = Math.min(pauseMs * 2, INTERVAL_MS_MAX)
    say('The service does not answer; trying again')
  }
  if (goesOn) timer = setTimeout(run, pauseMs)
  else bar.replaceChildren(state)
}

button.addEventListener('click', () => {
  isPaused = !isPaused
  say(isPaused ? 'Paused' : '')
  show()
  run()
})
document.addEventListener('visibilitychange', run)
show()
timer = setTimeout(run, INTERVAL_MS)
