/** A Kubernetes API server for tests with JUnit 5. */
package pintle.junit;
