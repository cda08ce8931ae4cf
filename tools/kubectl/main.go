// Kubectl as the tests run it: the published command, built from its Go module at a pinned version, so that the suite does
// not depend on what a machine has installed. Credential plugins of cloud providers are left out.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// The errors' wording and exit codes are kubectl's own.
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
