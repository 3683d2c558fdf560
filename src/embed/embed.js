// Keeps the standing up to date while somebody looks at it. Without this module the browser loads the page again.

const PAUSE_MS = 3000
const PAUSE_MS_MAX = 60_000
const RENEW_MS_MAX = 5000
const MEDALS = ['gold', 'silver', 'bronze']
const TINTS = 12

const element = id => document.getElementById(id)
const words = element('standing').dataset
let { key: shownKey } = words
let scores // of the last message, by member

/** A number, as the service has written the first ones. */
function written(number, decimals) {
  const [whole, fraction] = number.toFixed(decimals).split('.')
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, words.group)
  return fraction ? grouped + words.point + fraction : grouped
}

/** As in src/domain/face.rs. */
function tint(id) {
  let sum = 7
  for (const byte of new TextEncoder().encode(id)) sum = (Math.imul(sum, 31) + byte) >>> 0
  return sum % TINTS
}

function make(tag, name, ...content) {
  const made = document.createElement(tag)
  if (name) made.className = name
  made.append(...content)
  return made
}

function face(id, name, picture) {
  const initial = name.match(/[\p{Alphabetic}\p{N}]/u)?.[0].toUpperCase() ?? '?'
  const shown = make('span', `face tint-${tint(id)}`, initial)
  shown.ariaHidden = 'true'
  if (picture && 'pictures' in words) {
    const image = make('img')
    image.alt = ''
    image.src = picture
    shown.append(image)
  }
  return shown
}

/** A row, as the service has written them first. Names are text: members choose them. */
function row({ rank, member, profile, score }) {
  const name = profile?.name ?? member ?? '–'
  const medal = MEDALS[rank - 1]
  const place = rank ? make('span', medal && `medal ${medal}`, rank) : '–'
  const who = make('span', 'who', face(member ?? '', name, profile?.avatar_url), make('span', 'name', name))
  const head = make('th', '', who)
  head.scope = 'row'
  const isChanged = scores && scores.get(member) !== score
  return make('tr', isChanged && 'changed', make('td', 'rank', place), head, make('td', 'score', written(score, words.decimals)))
}

function show({ key, total, entries }) {
  element('entries').replaceChildren(...entries.map(row))
  scores = new Map(entries.map(({ member, score }) => [member, score]))
  element('total').textContent = total ? `${written(total, 0)} ${total === 1 ? words.one : words.many}` : words.nobody
  if (shownKey && key !== shownKey) setTimeout(renew, Math.random() * RENEW_MS_MAX)
  shownKey &&= key
}

/** Asks the service how it names the period that has begun; not all viewers at once. */
async function renew() {
  const response = await fetch(location.href, { cache: 'no-cache' })
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  element('period').textContent = page.getElementById('period')?.textContent ?? ''
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
  stream = new EventSource(words.stream)
  stream.addEventListener('standing', ({ data }) => {
    show(JSON.parse(data))
    say('')
    pauseMs = PAUSE_MS
  })
  stream.addEventListener('end', () => {
    stream.close()
    say(words.over)
  })
  stream.addEventListener('error', () => {
    say(words.lost)
    if (stream.readyState !== EventSource.CLOSED) return // The browser reconnects by itself.
    timer = setTimeout(watch, pauseMs * (0.5 + Math.random() / 2))
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)
  })
}

document.addEventListener('visibilitychange', watch)
watch()
