// kubectl for the tests: the published command, built from its Go module at a pinned version, so that the tests do
// not depend on what a machine has installed. Cloud credential plugins are omitted.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// CheckErr keeps kubectl's error messages and exit codes.
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
