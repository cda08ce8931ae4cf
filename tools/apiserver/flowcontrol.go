package main

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/kubernetes"
)

// applyFlowControl turns on API Priority and Fairness with the seats of both limits of requests in flight.
func applyFlowControl(config *genericapiserver.RecommendedConfig, client kubernetes.Interface) {
	seats := config.MaxRequestsInFlight + config.MaxMutatingRequestsInFlight
	config.FlowControl = utilflowcontrol.New(config.SharedInformerFactory, client.FlowcontrolV1(), seats)
}

// createFlowControlObjects creates the priority levels and flow schemas of every cluster. kube-apiserver also keeps them
// up to date, with code that no public library has.
func createFlowControlObjects(ctx context.Context, client kubernetes.Interface) error {
	levels := client.FlowcontrolV1().PriorityLevelConfigurations()
	for _, level := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations) {
		err := untilCreated(ctx, func(ctx context.Context) error {
			_, err := levels.Create(ctx, level, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	schemas := client.FlowcontrolV1().FlowSchemas()
	for _, schema := range slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas) {
		err := untilCreated(ctx, func(ctx context.Context) error {
			_, err := schemas.Create(ctx, schema, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// untilCreated calls create until the object exists.
func untilCreated(ctx context.Context, create func(context.Context) error) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := create(ctx)
		return err == nil || errors.IsAlreadyExists(err), nil
	})
}
