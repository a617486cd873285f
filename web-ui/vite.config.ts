import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// For work on the console: `npm run dev` beside a server; STYX_ADMIN_URL if it is not at the default address.
const admin = process.env.STYX_ADMIN_URL ?? 'http://127.0.0.1:9070';

export default defineConfig({
  plugins: [react()],
  // The policy of the page forbids what is inline.
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: false, reportCompressedSize: false },
  server: { proxy: { '/v1': { target: admin }, '/metrics': admin, '/openapi.json': admin } },
});
