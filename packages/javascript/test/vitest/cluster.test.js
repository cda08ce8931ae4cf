// The start and the end of clusters.

import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { PintleError, startCluster, useClusterWith } from 'pintle';
import * as k8s from '@kubernetes/client-node';
import { config, configMapNames, coreApi, createConfigMap } from '../scenario.js';

/** The processes whose arguments name the folder. */
function processesOf(/** @type {string} */ folder) {
  const listed = execFileSync('ps', ['-Aww', '-o', 'pid=,args='], { encoding: 'utf8' });
  return listed.split('\n').filter((line) => line.includes(folder));
}

/** A folder for the temporary folders of clusters. */
let temporary = '';

beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), 'pintle-test-'));
  vi.stubEnv('TMPDIR', temporary);
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(temporary, { recursive: true });
});

test('two clusters share nothing', async () => {
  const [first, second] = await Promise.all([startCluster(), startCluster()]);
  await createConfigMap(first.kubeconfig, 'only-in-first');
  expect(await configMapNames(first.kubeconfig)).toContain('only-in-first');
  expect(await configMapNames(second.kubeconfig)).not.toContain('only-in-first');
  await Promise.all([first.stop(), second.stop()]);
});

test.each(['1.34', '1.35', '1.36', '1.37'])('a cluster is Kubernetes %s if that was asked for', async (version) => {
  const cluster = await startCluster({ kubernetesVersion: version });
  const found = await config(cluster.kubeconfig).makeApiClient(k8s.VersionApi).getCode();
  expect(`${found.major}.${found.minor}`).toBe(version);
  await cluster.stop();
});

test('stop leaves no process and no folder', async () => {
  const cluster = await startCluster();
  const folder = dirname(cluster.kubeconfigPath);
  expect(processesOf(folder)).not.toEqual([]);
  await cluster.user('jane');
  await cluster.stop();
  expect(processesOf(folder)).toEqual([]);
  expect(readdirSync(temporary)).toEqual([]);
  await cluster.stop();
});

const START = "import { startCluster } from 'pintle'; const c = await startCluster(); console.log(c.kubeconfigPath);";

test.each([
  ['ends without stop', ''],
  ['is killed', "process.kill(process.pid, 'SIGKILL');"],
  ['throws', "throw new Error('failed');"],
])('nothing outlives a process that %s', async (_, ending) => {
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const result = spawnSync(process.execPath, ['--input-type=module', '--eval', START + ending], {
    cwd,
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect(result.stdout, result.stderr).toContain(temporary);
  const folder = dirname(result.stdout.trim());
  await vi.waitFor(
    () => {
      expect(processesOf(folder)).toEqual([]);
      expect(existsSync(folder)).toBe(false);
    },
    { timeout: 30_000 },
  );
}, 90_000);

test('a failed start shows the log and leaves nothing', async () => {
  const start = startCluster({ args: ['--no-such-flag'] });
  await expect(start).rejects.toThrow(/status 2\. Its log:\n.*unexpected argument '--no-such-flag'/);
  await expect(start).rejects.toBeInstanceOf(PintleError);
  expect(readdirSync(temporary)).toEqual([]);
});

test('a start that takes too long is stopped', async () => {
  const silent = join(temporary, 'silent');
  writeFileSync(silent, '#!/bin/sh\necho waiting\nexec sleep 600\n');
  chmodSync(silent, 0o755);
  await expect(startCluster({ binary: silent, timeout: 500 })).rejects.toThrow(/not ready after 500 ms.*\nwaiting/);
  expect(readdirSync(temporary)).toEqual(['silent']);
});

test('the named binary must be a program', async () => {
  await expect(startCluster({ binary: join(temporary, 'missing') })).rejects.toThrow(/not a program: .*\/missing/);
});

test('arguments reach the server', async () => {
  const cluster = await startCluster({ args: ['--service-cluster-ip-range=10.200.0.0/16'] });
  const api = coreApi(cluster.kubeconfig);
  const service = await api.readNamespacedService({ namespace: 'default', name: 'kubernetes' });
  expect(service.spec?.clusterIP).toBe('10.200.0.1');
  await cluster.stop();
});

test('a refused user is an error', async () => {
  const cluster = await startCluster();
  await expect(cluster.user('')).rejects.toThrow(/pintle kubeconfig failed: \S+/);
  await cluster.stop();
});

test('any runner can start and stop a cluster', async () => {
  /** @type {(() => Promise<void>)[]} */
  const before = [];
  /** @type {(() => Promise<void>)[]} */
  const after = [];
  const cluster = useClusterWith({ beforeAll: (run) => before.push(run), afterAll: (run) => after.push(run) });
  expect(() => cluster.url).toThrow(PintleError);
  await before[0]?.();
  await createConfigMap(cluster.kubeconfig, 'first');
  await after[0]?.();
  expect(() => cluster.url).toThrow(PintleError);
  expect(readdirSync(temporary)).toEqual([]);
});
