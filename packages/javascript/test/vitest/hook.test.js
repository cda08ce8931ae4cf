// The hook for Vitest, with the official client.

import { describe, expect, test } from 'vitest';
import { useCluster } from 'pintle/vitest';
import { configMapNames, createConfigMap, createListWatch, isForbidden } from '../scenario.js';

const cluster = useCluster();

test('the official client creates, lists and watches', () => createListWatch(cluster));

test('a user without a role is refused', async () => {
  await isForbidden(await cluster.user('jane', ['team: a']), 'jane');
});

test('the file has the kubeconfig', async () => {
  const { readFile } = await import('node:fs/promises');
  expect(await readFile(cluster.kubeconfigPath, 'utf8')).toBe(cluster.kubeconfig);
  expect(cluster.kubeconfig).toContain(`server: ${cluster.url}\n`);
});

describe('a block', () => {
  const own = useCluster();

  test('can have a cluster of its own', async () => {
    expect(own.url).not.toBe(cluster.url);
    await createConfigMap(own.kubeconfig, 'only-in-own');
    expect(await configMapNames(own.kubeconfig)).toContain('only-in-own');
    expect(await configMapNames(cluster.kubeconfig)).not.toContain('only-in-own');
  });
});
