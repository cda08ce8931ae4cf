// Helm for the tests: the published command, built from its Go module at a pinned version. Cloud credential plugins are
// omitted.
package main

import (
	"errors"
	"os"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	kube.ManagedFieldsManager = "helm"
	command, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err == nil {
		err = command.Execute()
	}
	var failed cmd.CommandError
	switch {
	case errors.As(err, &failed):
		os.Exit(failed.ExitCode)
	case err != nil:
		os.Exit(1)
	}
}
