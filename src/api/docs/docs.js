// Starts Swagger UI without a head of its own. It keeps the API key across reloads.

SwaggerUIBundle({
  url: '../openapi.json',
  dom_id: '#docs',
  deepLinking: true,
  persistAuthorization: true,
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
  syntaxHighlight: false, // Its colours can't be read on every ground.
})
