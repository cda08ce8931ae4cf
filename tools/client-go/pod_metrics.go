package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
)

// printPodMetrics reads the metrics of pods by their label, like the controller of HorizontalPodAutoscalers: with its
// client and in Protobuf. It prints a line for each container.
func printPodMetrics(ctx context.Context, c clients, selector string) error {
	config := rest.CopyConfig(c.config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := metrics.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.PodMetricses(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	for _, pod := range list.Items {
		for _, container := range pod.Containers {
			usage := container.Usage
			fmt.Printf("%s %s %dm %d\n", pod.Name, container.Name, usage.Cpu().MilliValue(), usage.Memory().Value())
		}
	}
	return nil
}
