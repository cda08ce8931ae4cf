// The hook for Jest.

import { afterAll, beforeAll } from '@jest/globals';
import { useClusterWith } from './index.js';

/** @type {typeof import('./jest.js').useCluster} */
export function useCluster(options) {
  return useClusterWith({ beforeAll, afterAll }, options);
}
