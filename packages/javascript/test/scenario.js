// Requests of the official client to a cluster, for the tests of each runner.

import assert from 'node:assert/strict';
import * as k8s from '@kubernetes/client-node';

/**
 * The official client's configuration.
 * @param {string} kubeconfig
 */
export function config(kubeconfig) {
  const result = new k8s.KubeConfig();
  result.loadFromString(kubeconfig);
  return result;
}

/** @param {string} kubeconfig */
export function coreApi(kubeconfig) {
  return config(kubeconfig).makeApiClient(k8s.CoreV1Api);
}

/**
 * @param {string} kubeconfig
 * @param {string} name
 */
export async function createConfigMap(kubeconfig, name) {
  const body = { metadata: { name }, data: { key: 'value' } };
  await coreApi(kubeconfig).createNamespacedConfigMap({ namespace: 'default', body });
}

/** @param {string} kubeconfig */
export async function configMapNames(kubeconfig) {
  const list = await coreApi(kubeconfig).listNamespacedConfigMap({ namespace: 'default' });
  return list.items.map((item) => item.metadata?.name);
}

/**
 * Creates, lists and watches objects.
 * @param {{ kubeconfig: string }} cluster
 */
export async function createListWatch({ kubeconfig }) {
  await createConfigMap(kubeconfig, 'first');
  const list = await coreApi(kubeconfig).listNamespacedConfigMap({ namespace: 'default' });
  const first = list.items.find((item) => item.metadata?.name === 'first');
  assert.deepEqual(first?.data, { key: 'value' });

  const path = '/api/v1/namespaces/default/configmaps';
  const query = { resourceVersion: list.metadata?.resourceVersion };
  /** @type {AbortController | undefined} */
  let watch;
  const event = new Promise((resolve, reject) => {
    const received = (/** @type {string} */ type, /** @type {k8s.V1ConfigMap} */ object) =>
      resolve([type, object.metadata?.name]);
    const started = new k8s.Watch(config(kubeconfig)).watch(path, query, received, reject);
    started.then((controller) => (watch = controller), reject);
  });
  await createConfigMap(kubeconfig, 'second');
  assert.deepEqual(await event, ['ADDED', 'second']);
  watch?.abort();
}

/**
 * A user without a role is refused.
 * @param {import('pintle').Kubeconfig} user
 * @param {string} name
 */
export async function isForbidden(user, name) {
  await assert.rejects(coreApi(user.kubeconfig).listNamespacedSecret({ namespace: 'default' }), (error) => {
    assert(error instanceof k8s.ApiException);
    assert.equal(error.code, 403);
    assert.match(String(JSON.parse(error.body).message), new RegExp(`User "${name}" cannot list resource "secrets"`));
    return true;
  });
}
