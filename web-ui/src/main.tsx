import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiError } from './api/client';
import { App } from './app';
import { Boundary } from './components/boundary';
import { applyTheme } from './components/theme';
import './styles.css';

applyTheme();

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1000,
      // What the server refuses it refuses again; a server that is away is seen by the events.
      retry: (attempt, error) => attempt < 2 && error instanceof ApiError && error.status === 503,
    },
  },
});

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Boundary of="">
        <App />
      </Boundary>
    </QueryClientProvider>
  </StrictMode>,
);
