// Keeps a running standing up to date: it asks for the page again, and shows its entries if they have changed. A stream tells when
// to ask; where there is none, it asks again and again. It waits while nobody looks at the page, or after `Pause`.

const INTERVAL_MS = 2000
const ASK_INTERVAL_MS = 2000
const INTERVAL_MS_MAX = 60_000
const ANSWER_MS = 35_000 // The service answers within 30 s.

const section = document.querySelector('[data-live]')
const button = document.createElement('button')
const state = document.createElement('span')
button.type = 'button'
button.className = 'quiet slim'
state.setAttribute('role', 'status')
document.getElementById('pulse')?.append(button, state)

const query = new URLSearchParams(location.search)
// A stream tells of the first page, and of what everybody sees.
const isTold = ['key', 'at', 'page', 'tier', 'after', 'hidden'].every(name => !query.get(name))
const { href } = document.querySelector('[aria-label="Windows"] [aria-current]')
const address = `${href}/stream?${new URLSearchParams({ cohort: query.get('cohort') ?? '' })}`

let stream
let isPaused = false
let pauseMs = INTERVAL_MS
let timer
let askedAt = 0
let isAsking = false
let isStale = false // Something has changed while the page was asked for.

function name() {
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
  if (rows(found) !== rows(section)) {
    // What somebody has just opened or begins to type stays.
    if (section.querySelector('[data-part] :is(.menu[open], input:focus)')) isStale = true
    else keepFocus(() => show(found))
  }
  if (!found.hasAttribute('data-live')) {
    say('The period is over.')
    return false
  }
  return true
}

/** What the entries say, without how long ago. */
function rows(element) {
  return [...element.querySelectorAll('dd, tbody :is(th, td):not(.reached)')].map(cell => cell.textContent).join('\n')
}

/** Shows the new entries, and marks those whose rank or score has changed. */
function show(found) {
  const before = new Map()
  for (const row of section.querySelectorAll('[data-row]')) before.set(row.dataset.row, row.querySelector('.score').textContent)
  for (const row of found.querySelectorAll('[data-row]')) {
    const isChanged = before.get(row.dataset.row) !== row.querySelector('.score').textContent
    row.classList.toggle('changed', isChanged)
  }
  const parts = found.querySelectorAll('[data-part]')
  section.querySelectorAll('[data-part]').forEach((part, index) => part.replaceChildren(...(parts[index]?.childNodes ?? [])))
  for (const copy of section.querySelectorAll('[data-copy]')) copy.hidden = !navigator.clipboard
}

/** Changes the section; who has tabbed to a link in it stays there. */
function keepFocus(change) {
  const focused = section.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null
  const [left] = [section.querySelector('.list')?.scrollLeft ?? 0]
  change()
  const scroll = section.querySelector('.list')
  if (scroll) scroll.scrollLeft = left
  if (focused) section.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true })
}

/** Watches for as long as somebody looks. */
function watch() {
  const isWanted = isTold && !isPaused && !document.hidden
  if (!isWanted) stream?.close()
  if (!isWanted || (stream && stream.readyState !== EventSource.CLOSED)) return
  stream = new EventSource(address)
  stream.addEventListener('standing', soon)
  stream.addEventListener('error', soon)
  stream.addEventListener('end', () => {
    stream.close()
    soon()
  })
}

/** Asks for the page, though not more often than once in a while. */
function soon() {
  clearTimeout(timer)
  timer = setTimeout(run, Math.max(0, askedAt + ASK_INTERVAL_MS - Date.now()))
}

async function run() {
  clearTimeout(timer)
  if (isPaused || document.hidden) return
  isStale = isAsking
  if (isAsking) return
  isAsking = true
  askedAt = Date.now()
  let goesOn = true
  try {
    goesOn = await refresh()
    pauseMs = INTERVAL_MS
    if (goesOn) say('Live')
  } catch {
    pauseMs = Math.min(pauseMs * 2, INTERVAL_MS_MAX)
    say('The service does not answer; trying again')
  }
  isAsking = false
  clearTimeout(timer)
  if (!goesOn) {
    stream?.close()
    button.remove()
  } else if (isStale) soon()
  else if (stream?.readyState !== EventSource.OPEN || pauseMs > INTERVAL_MS) timer = setTimeout(run, pauseMs)
}

button.addEventListener('click', () => {
  isPaused = !isPaused
  say(isPaused ? 'Paused' : '')
  name()
  watch()
  run()
})
document.addEventListener('visibilitychange', () => {
  watch()
  run()
})
name()
watch()
timer = setTimeout(run, INTERVAL_MS)
