// Starts and stops a server as a process of its own.

import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { findBinary } from './binary.js';
import { PintleError } from './error.js';

/** The shell script that ends the server when this process dies. */
const GUARD = readFileSync(new URL('./guard.sh', import.meta.url), 'utf8');

/** How many of the last lines of the log are kept. */
const LOG_LINES = 2000;

/** @type {typeof import('./index.js').startCluster} */
export async function startCluster({ args = [], kubernetesVersion, binary, timeout = 30_000 } = {}) {
  const program = findBinary(binary);
  const folder = await mkdtemp(join(tmpdir(), 'pintle-'));
  const version = kubernetesVersion === undefined ? [] : [`--kubernetes-version=${kubernetesVersion}`];
  const server = new Server(program, folder, [...version, ...args]);
  try {
    await server.waitUntilReady(timeout);
    return new RunningCluster(server, await readFile(server.kubeconfigPath, 'utf8'));
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** A cluster as index.d.ts describes it. */
class RunningCluster {
  #server;
  #users = 0;

  /**
   * @param {Server} server
   * @param {string} kubeconfig
   */
  constructor(server, kubeconfig) {
    this.#server = server;
    this.url = server.url;
    this.kubeconfig = kubeconfig;
    this.kubeconfigPath = server.kubeconfigPath;
  }

  get log() {
    return this.#server.log();
  }

  /**
   * @param {string} name
   * @param {readonly string[]} groups
   */
  async user(name, groups = []) {
    const { program, folder } = this.#server;
    const options = [`--data-dir=${folder}`, `--user=${name}`, ...groups.map((group) => `--group=${group}`)];
    const run = promisify(execFile)(program, ['kubeconfig', ...options]);
    const { stdout: kubeconfig } = await run.catch((error) => {
      throw new PintleError(`pintle kubeconfig failed: ${error.stderr?.trim() || error.message}`);
    });
    this.#users += 1;
    const kubeconfigPath = join(folder, `user-${this.#users}.kubeconfig`);
    await writeFile(kubeconfigPath, kubeconfig, { mode: 0o600 });
    return { kubeconfig, kubeconfigPath };
  }

  stop() {
    return this.#server.stop();
  }

  [Symbol.asyncDispose]() {
    return this.stop();
  }
}

/** The process of a server, its folder and its log. */
class Server {
  url = '';
  kubeconfigPath = '';
  /** @type {string[]} */
  #lines = [];
  #process;
  /** Resolves when the server has printed its URL and the path of its kubeconfig. */
  #ready;
  /** Resolves to the exit status when the process has ended and everything is cleaned up. */
  #ended;

  /**
   * @param {string} program
   * @param {string} folder
   * @param {readonly string[]} args
   */
  constructor(program, folder, args) {
    this.program = program;
    this.folder = folder;
    const serve = ['serve', '--storage-backend=memory', '--secure-port=0', `--data-dir=${folder}`, ...args];
    this.#process = spawn('/bin/sh', ['-c', `exec 2>&1\n${GUARD}`, 'guard', folder, program, ...serve], {
      stdio: ['pipe', 'pipe', 'ignore'],
      // An interrupt from the terminal reaches the tests, which may still use the server to clean up.
      detached: true,
    });
    /** @type {Promise<number | null>} */
    this.#ended = new Promise((resolve, reject) => {
      this.#process.on('close', resolve);
      this.#process.on('error', reject);
    });
    // `stop` and `waitUntilReady` report the error.
    this.#ended.catch(() => {});
    // The server may end before this process stops it.
    this.#process.stdin.on('error', () => {});
    /** @type {Promise<void>} */
    this.#ready = new Promise((resolve) => {
      createInterface({ input: this.#process.stdout }).on('line', (line) => {
        if (this.#lines.push(line) > LOG_LINES) {
          this.#lines.shift();
        }
        const [, name, value] = /^(url|kubeconfig): +(.*)$/.exec(line) ?? [];
        if (name === 'url' && value && !this.url) {
          this.url = value;
        } else if (name === 'kubeconfig' && value && !this.kubeconfigPath) {
          this.kubeconfigPath = value;
          resolve();
        }
      });
    });
  }

  /** @param {number} timeout */
  async waitUntilReady(timeout) {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const tooLate = new Promise((_, reject) => {
      timer = setTimeout(
        () => reject(new PintleError(`the server was not ready after ${timeout} ms. Its log:\n${this.log()}`)),
        timeout,
      );
    });
    const endedEarly = this.#ended.then((status) => {
      throw new PintleError(`the server ended with status ${status}. Its log:\n${this.log()}`);
    });
    try {
      await Promise.race([this.#ready, endedEarly, tooLate]);
    } finally {
      clearTimeout(timer);
      endedEarly.catch(() => {});
    }
    // A cluster that is never stopped does not keep this process alive. It ends with this process.
    this.#keepAlive(false);
  }

  async stop() {
    this.#keepAlive(true);
    this.#process.stdin.end('\n');
    try {
      await this.#ended;
    } finally {
      // The folder still exists only if the shell was killed.
      await rm(this.folder, { recursive: true, force: true });
    }
  }

  log() {
    return this.#lines.join('\n');
  }

  /** @param {boolean} wanted */
  #keepAlive(wanted) {
    const name = wanted ? 'ref' : 'unref';
    this.#process[name]();
    for (const stream of [this.#process.stdin, this.#process.stdout]) {
      /** @type {import('node:net').Socket} */ (/** @type {unknown} */ (stream))[name]();
    }
  }
}
