import type { ClusterOptions, useClusterWith } from './index.js';

/** Starts a cluster before all tests of the file or the block that calls it, and stops it after them. For Jest. */
export function useCluster(options?: ClusterOptions): ReturnType<typeof useClusterWith>;
