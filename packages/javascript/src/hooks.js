// Starts and stops a cluster with the hooks of a test runner.

import { startCluster } from './cluster.js';
import { PintleError } from './error.js';

/** How long the hooks may take beyond the start of the server, in milliseconds. */
const MARGIN = 30_000;

/** @type {typeof import('./index.js').useClusterWith} */
export function useClusterWith({ beforeAll, afterAll }, options = {}) {
  /** @type {import('./index.js').Cluster | undefined} */
  let running;
  beforeAll(async () => {
    running = await startCluster(options);
  }, (options.timeout ?? MARGIN) + MARGIN);
  afterAll(async () => {
    await running?.stop();
    running = undefined;
  }, MARGIN);
  const cluster = () => {
    if (running === undefined) {
      throw new PintleError('the cluster is not running: it starts before the first test');
    }
    return running;
  };
  return {
    get url() {
      return cluster().url;
    },
    get kubeconfig() {
      return cluster().kubeconfig;
    },
    get kubeconfigPath() {
      return cluster().kubeconfigPath;
    },
    get log() {
      return cluster().log;
    },
    user: (name, groups) => cluster().user(name, groups),
  };
}
