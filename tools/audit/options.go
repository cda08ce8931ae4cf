package main

import (
	"strings"

	"github.com/spf13/pflag"
	serveroptions "k8s.io/apiserver/pkg/server/options"
)

// optionsRow is flags without their prefix `--audit-`, and the errors of their validation.
type optionsRow struct {
	Flags  []string
	Errors []string
}

func options() []optionsRow {
	rows := []optionsRow{}
	for _, flags := range []string{
		"", "log-path=/x", "log-mode=x", "log-path=/x log-mode=x", "log-path=/x log-mode=batch", "log-path=/x log-mode=blocking-strict",
		"log-path=/x log-mode=batch log-batch-buffer-size=0 log-batch-max-size=0", "log-path=/x log-batch-buffer-size=0",
		"log-path=/x log-mode=batch log-batch-max-size=-1",
		"log-path=/x log-mode=batch log-batch-throttle-qps=0", "log-path=/x log-mode=batch log-batch-throttle-enable log-batch-throttle-qps=-1.5",
		"log-path=/x log-mode=batch log-batch-throttle-enable",
		"log-path=/x log-mode=batch log-batch-throttle-enable log-batch-throttle-qps=0.1",
		"log-path=/x log-truncate-max-event-size=0", "log-path=/x log-truncate-max-event-size=-5",
		"log-path=/x log-truncate-max-batch-size=7 log-truncate-max-event-size=8",
		"log-path=/x log-version=a", "log-path=/x log-version=a/b/c", "log-path=/x log-version=", "log-path=/x log-version=audit.k8s.io/v1beta1",
		"log-path=/x log-format=xml", "log-path=/x log-format=legacy log-maxage=-1 log-maxbackup=-2 log-maxsize=-3",
		"log-path=- log-maxage=-1", "log-path=/x log-maxage=0 log-maxbackup=0 log-maxsize=0 log-compress",
		"log-path=/x log-mode=x log-truncate-max-event-size=0 log-version=a log-format=b log-maxsize=-1",
		"webhook-config-file=/x", "webhook-mode=x", "webhook-config-file=/x webhook-mode=x", "webhook-config-file=/x webhook-batch-max-size=0",
		"webhook-config-file=/x webhook-batch-throttle-qps=-1e-7", "webhook-config-file=/x webhook-batch-throttle-burst=0",
		"webhook-config-file=/x webhook-batch-throttle-qps=-12345678", "webhook-config-file=/x webhook-batch-throttle-enable=false webhook-batch-throttle-qps=0",
		"webhook-config-file=/x webhook-truncate-max-event-size=0 webhook-version=b",
		"log-path=/x log-mode=x webhook-config-file=/x webhook-mode=y",
		"policy-file=/x webhook-initial-backoff=-1s webhook-batch-max-wait=-1s",
	} {
		options := serveroptions.NewAuditOptions()
		set := pflag.NewFlagSet("", pflag.PanicOnError)
		options.AddFlags(set)
		row := optionsRow{Flags: strings.Fields(flags), Errors: []string{}}
		var arguments []string
		for _, flag := range row.Flags {
			arguments = append(arguments, "--audit-"+flag)
		}
		if err := set.Parse(arguments); err != nil {
			panic(err)
		}
		for _, err := range options.Validate() {
			row.Errors = append(row.Errors, err.Error())
		}
		rows = append(rows, row)
	}
	return rows
}
