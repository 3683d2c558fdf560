// Keeps the standing up to date while somebody looks at it. Without this module the browser loads the page again.

const PAUSE_MS = 3000
const PAUSE_MS_MAX = 60_000

const element = id => document.getElementById(id)
const { stream: source, window: name } = element('standing').dataset

/** A row, as the service has written them first. Names are text: members choose them. */
function row({ rank, member, profile, score }) {
  const row = document.createElement('tr')
  const cells = [['td', 'rank', rank ?? '–'], ['th', '', profile?.name ?? member ?? '–'], ['td', 'score', score]]
  for (const [tag, kind, text] of cells) {
    const cell = document.createElement(tag)
    if (kind) cell.className = kind
    if (tag === 'th') cell.scope = 'row'
    if (kind === 'rank' && rank === 1) cell.className = 'rank first'
    cell.textContent = text
    row.append(cell)
  }
  return row
}

function show({ key, total, entries }) {
  element('entries').replaceChildren(...entries.map(row))
  element('period').textContent = key === name ? '' : key
  element('total').textContent = `${total} ${total === 1 ? 'member' : 'members'}`
}

let stream
let timer
let pauseMs = PAUSE_MS

function say(text) {
  if (element('state').textContent !== text) element('state').textContent = text
}

/** Watches the standing, as long as somebody looks at the page. */
function watch() {
  clearTimeout(timer)
  stream?.close()
  if (document.hidden) return
  stream = new EventSource(source)
  stream.addEventListener('standing', ({ data }) => {
    show(JSON.parse(data))
    say('')
    pauseMs = PAUSE_MS
  })
  stream.addEventListener('end', ({ data }) => {
    stream.close()
    say(JSON.parse(data).detail)
  })
  stream.addEventListener('error', () => {
    say('Connection lost. Reconnecting …')
    if (stream.readyState !== EventSource.CLOSED) return // The browser reconnects by itself.
    timer = setTimeout(watch, pauseMs * (0.5 + Math.random() / 2))
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)
  })
}

document.addEventListener('visibilitychange', watch)
watch()
