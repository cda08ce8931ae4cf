// The hook for Vitest.

import { afterAll, beforeAll } from 'vitest';
import { useClusterWith } from './index.js';

/** @type {typeof import('./vitest.js').useCluster} */
export function useCluster(options) {
  return useClusterWith({ beforeAll, afterAll }, options);
}
