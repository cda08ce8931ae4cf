// The functions of the package. index.d.ts describes them.

export { findBinary } from './binary.js';
export { startCluster } from './cluster.js';
export { PintleError } from './error.js';
export { useClusterWith } from './hooks.js';
