// The first page: a demonstration, which gives points to somebody now and then, and the id and the command that follow from a title.
// Nothing of the demonstration leaves the browser.

const STEP_MS = 1300
const GAIN_MAX = 4000
const MOVE_MS = 600

const demo = document.getElementById('demo')
const body = demo.querySelector('tbody')
const rows = [...body.rows].map(row => ({ row, score: Number(row.dataset.score) }))
const isStill = matchMedia('(prefers-reduced-motion: reduce)')
const button = document.createElement('button')
button.type = 'button'
button.className = 'quiet slim'
let isPaused = false

/** Moves rows from where they have been to where they are. */
function arrange() {
  const before = new Map(rows.map(({ row }) => [row, row.getBoundingClientRect().top]))
  rows.sort((a, b) => b.score - a.score)
  body.append(...rows.map(({ row }) => row))
  rows.forEach(({ row, score }, index) => {
    const place = row.querySelector('.rank')
    const shown = document.createElement('span')
    if (index < 3) shown.className = `medal medal-${index + 1}`
    shown.textContent = index + 1
    place.replaceChildren(shown)
    row.querySelector('.score').textContent = score.toLocaleString('en')
    row.querySelector('rect').setAttribute('width', (100 * score) / rows[0].score)
    const moved = before.get(row) - row.getBoundingClientRect().top
    if (moved) row.animate([{ transform: `translateY(${moved}px)` }, { transform: 'none' }], { duration: MOVE_MS, easing: 'ease-in-out' })
  })
}

function step() {
  if (isPaused || isStill.matches || document.hidden) return
  // Those further down gain more, so that something happens.
  const index = Math.floor(rows.length * Math.sqrt(Math.random()))
  const lucky = rows[index]
  lucky.score += Math.ceil(Math.random() * GAIN_MAX * (index + 1) / 2)
  lucky.row.classList.remove('changed')
  arrange()
  lucky.row.classList.add('changed')
}

function showButton() {
  button.hidden = isStill.matches
  button.textContent = isPaused ? 'Go on' : 'Pause'
}
button.addEventListener('click', () => {
  isPaused = !isPaused
  showButton()
})
isStill.addEventListener('change', showButton)
showButton()
demo.querySelector('figcaption').append(button)
setInterval(step, STEP_MS)

const form = document.getElementById('first-board')
const { title, board } = form.elements
const command = document.getElementById('define')
const [start] = command.textContent.split('/v1/')

/** An id of what a title says: `High scores!` gives `high_scores`. */
function idOf(text) {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
  return plain.replace(/[^a-z0-9]+/g, '_').replace(/^_+|_+$/g, '').slice(0, 60)
}

function show() {
  const { update, windows } = form.elements
  const fields = { title: title.value, update: update.value, windows: windows.value.split(' ') }
  const json = JSON.stringify(fields).replaceAll("'", "'\\''")
  command.textContent = `${start}/v1/boards/${board.value || 'BOARD'} -X PUT \\\n  -H 'Content-Type: application/json' \\\n  -d '${json}'`
  for (const name of document.querySelectorAll('[data-board]')) name.textContent = board.value || 'BOARD'
}
let isOwn = board.value !== idOf(title.value)
title.addEventListener('input', () => {
  if (!isOwn) board.value = idOf(title.value)
})
board.addEventListener('input', () => {
  isOwn = board.value !== ''
})
form.addEventListener('input', show)
show()
