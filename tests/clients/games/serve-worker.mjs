// Serves the worker of docs/games.md as a serverless platform does: its `fetch` gets each request, and the settings.

import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

const { default: worker } = await import(pathToFileURL(process.argv[2]))
createServer(async (incoming, outgoing) => {
  const parts = []
  for await (const part of incoming) parts.push(part)
  const request = new Request('http://127.0.0.1/', { method: 'POST', body: Buffer.concat(parts) })
  const response = await worker.fetch(request, { STANDINGS_JWT_KEY: process.env.STANDINGS_JWT_KEY })
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  outgoing.end(Buffer.from(await response.arrayBuffer()))
}).listen(process.env.PORT, '127.0.0.1')
