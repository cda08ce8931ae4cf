/** A Kubernetes API server for tests. */

/** How a cluster is started. */
export interface ClusterOptions {
  /** Further arguments of `pintle serve`. */
  args?: readonly string[];
  /** The minor version of Kubernetes that the cluster is, such as '1.35'. Default: the newest one. */
  kubernetesVersion?: string;
  /** The path of the server's program. Default: see {@link findBinary}. */
  binary?: string;
  /** How many milliseconds the start may take. Default: 30000. */
  timeout?: number;
}

/** A kubeconfig, as text and as a file that is removed when the cluster stops. */
export interface Kubeconfig {
  /** The YAML text. */
  readonly kubeconfig: string;
  /** The path of the file. */
  readonly kubeconfigPath: string;
}

/** A running Kubernetes API server. Its own kubeconfig is the administrator's. */
export interface Cluster extends Kubeconfig {
  /** The URL of the server, such as https://127.0.0.1:40219. */
  readonly url: string;
  /** The last lines that the server has printed. */
  readonly log: string;
  /** Returns the kubeconfig of a user, with a new client certificate. The user may do what RBAC allows. */
  user(name: string, groups?: readonly string[]): Promise<Kubeconfig>;
  /** Stops the server and removes its folder. A second call does nothing. */
  stop(): Promise<void>;
  /** The same as `stop`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** The functions of a test runner that run before and after all tests of a file or a block. */
export interface Hooks {
  beforeAll(run: () => Promise<void>, timeout?: number): unknown;
  afterAll(run: () => Promise<void>, timeout?: number): unknown;
}

/** The server could not be found or started, or one of its commands failed. The message has the server's log. */
export class PintleError extends Error {}

/**
 * Starts a server on a free port of 127.0.0.1, which keeps objects in memory, and waits until it is ready. The server
 * also ends when this process dies, whatever the cause. Several servers can run at once.
 *
 * @throws {PintleError} if it cannot be started
 */
export function startCluster(options?: ClusterOptions): Promise<Cluster>;

/**
 * Returns the path of the server's program. It is `binary` if given. Otherwise it is the first of these that exists: this
 * package's program for the platform, the program that PINTLE_BINARY names, `pintle` on the PATH.
 *
 * @throws {PintleError} if there is no program, or if the named file is not a program
 */
export function findBinary(binary?: string): string;

/**
 * Starts a cluster before all tests of a file or block and stops it after them, with the functions of any test runner.
 * `pintle/vitest` and `pintle/jest` call it with their functions. The cluster can be used from the first test on, and
 * in hooks that are declared later.
 */
export function useClusterWith(hooks: Hooks, options?: ClusterOptions): Omit<Cluster, 'stop' | typeof Symbol.asyncDispose>;
