// Plays with the signers and the JavaScript client of docs/games.md: node session.mjs GAME SERVICE SIGNER…
//
// The client is run once for each signer, behind a proxy that drops the response to the first event after the service has
// accepted it.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { promisify } from 'node:util'

const [game, service, ...signers] = process.argv.slice(2)
const page = await readFile(game, 'utf8')

/** A player of a signer. */
async function signed(signer, old) {
  const response = await fetch(signer, { method: 'POST', body: old })
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('Access-Control-Allow-Origin'), '*')
  return response.json()
}

/** Posts an event; returns the status. */
async function post(board, member, token) {
  const body = JSON.stringify({ id: crypto.randomUUID(), member, score: 7 })
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
  return (await fetch(`${service}/v1/boards/${board}/events`, { method: 'POST', body, headers })).status
}

/** Passes requests on to the service, and drops the first response to an event. */
async function dropping() {
  let isDropped = false
  const proxy = createServer(async (incoming, outgoing) => {
    const parts = []
    for await (const part of incoming) parts.push(part)
    const { authorization, 'content-type': type } = incoming.headers
    const response = await fetch(service + incoming.url, {
      method: incoming.method,
      headers: { authorization, ...(type && { 'content-type': type }) },
      ...(incoming.method === 'POST' && { body: Buffer.concat(parts) }),
    })
    const body = Buffer.from(await response.arrayBuffer())
    if (incoming.method === 'POST' && !isDropped) {
      assert.equal(response.status, 200)
      isDropped = true
      outgoing.destroy()
      return
    }
    outgoing.writeHead(response.status, { 'content-type': response.headers.get('content-type') })
    outgoing.end(body)
  })
  await new Promise(resolve => proxy.listen(0, '127.0.0.1', resolve))
  return proxy
}

let players = 0
for (const signer of signers) {
  const ann = await signed(signer, 'none')
  assert.equal(await post('jump', ann.sub, ann.token), 200)
  players += 1
  assert.equal(await post('jump', 'somebody', ann.token), 403)
  assert.equal(await post('walk', ann.sub, ann.token), 403)

  // All signers have one secret: each knows the players of the others, also by a token that has expired.
  for (const other of signers) {
    const renewed = await signed(other, ann.token)
    assert.equal(renewed.sub, ann.sub)
    assert.equal(await post('jump', renewed.sub, renewed.token), 200)
  }
  const [head, claims, signature] = ann.token.split('.')
  const others = Buffer.from(JSON.stringify({ ...JSON.parse(Buffer.from(claims, 'base64url')), sub: 'bob' }))
  const forged = [head, others.toString('base64url'), signature].join('.')
  for (const old of [forged, `${head}.${claims}.`, `${head}.${claims}`, '', '..', 'ä.ö.ü', 'x'.repeat(9000)]) {
    const stranger = await signed(signer, old)
    assert(![ann.sub, 'bob'].includes(stranger.sub), old)
  }

  const proxy = await dropping()
  const address = `http://127.0.0.1:${proxy.address().port}`
  await writeFile(game, page.replace('http://127.0.0.1:8080', address).replace('http://127.0.0.1:8090', signer))
  const { stdout } = await promisify(execFile)(process.execPath, [game])
  players += 1
  assert.equal(stdout, `duplicate ${players} 1200\n`)
  proxy.close()
}
console.log('The signers and the game of docs/games.md have played their session.')
