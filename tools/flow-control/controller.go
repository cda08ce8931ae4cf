package main

import (
	"context"
	"strings"
	"time"
	"unsafe"

	api "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	applyv1 "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	"k8s.io/client-go/informers"
	flowcontrolclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"
)

// controller is upstream's controller without its worker, informers and timers: this program calls what they call.
type controller struct {
	flowcontrol.Interface
	statuses *statuses
}

// statuses records the conditions that the controller writes.
type statuses struct {
	flowcontrolclient.FlowcontrolV1Interface
	flowcontrolclient.FlowSchemaInterface
	written map[string]condition
}

// condition is the condition of a FlowSchema.
type condition struct {
	Type, Status, Reason, Message string
}

func (s *statuses) FlowSchemas() flowcontrolclient.FlowSchemaInterface { return s }

func (s *statuses) ApplyStatus(_ context.Context, schema *applyv1.FlowSchemaApplyConfiguration, _ metav1.ApplyOptions) (*api.FlowSchema, error) {
	for _, c := range schema.Status.Conditions {
		s.written[*schema.Name] = condition{string(*c.Type), string(*c.Status), *c.Reason, *c.Message}
	}
	return nil, nil
}

func newController(clock clock.PassiveClock, factory fq.QueueSetFactory, limit int) *controller {
	statuses := &statuses{written: map[string]condition{}}
	return &controller{flowcontrol.NewTestable(flowcontrol.TestableConfig{
		Name:                   "recorder",
		Clock:                  clock,
		AsFieldManager:         "recorder",
		FoundToDangling:        func(found bool) bool { return !found },
		InformerFactory:        informers.NewSharedInformerFactory(nil, 0),
		FlowcontrolClient:      statuses,
		ServerConcurrencyLimit: limit,
		ReqsGaugeVec:           metrics.PriorityLevelConcurrencyGaugeVec,
		ExecSeatsGaugeVec:      metrics.PriorityLevelExecutionSeatsGaugeVec,
		QueueSetFactory:        factory,
	}), statuses}
}

// pointer is the pointer inside the interface.
func (c *controller) pointer() unsafe.Pointer {
	return (*[2]unsafe.Pointer)(unsafe.Pointer(&c.Interface))[1]
}

// digest does what the worker does with the objects that the informers know.
func (c *controller) digest(levels []*api.PriorityLevelConfiguration, schemas []*api.FlowSchema) {
	if _, err := digestConfigObjects(c.pointer(), levels, schemas); err != nil {
		panic(err)
	}
}

// adjust does what the timer does every ten seconds.
func (c *controller) adjust() { updateBorrowing(c.pointer()) }

//go:linkname digestConfigObjects k8s.io/apiserver/pkg/util/flowcontrol.(*configController).digestConfigObjects
func digestConfigObjects(controller unsafe.Pointer, levels []*api.PriorityLevelConfiguration, schemas []*api.FlowSchema) (time.Duration, error)

//go:linkname updateBorrowing k8s.io/apiserver/pkg/util/flowcontrol.(*configController).updateBorrowing
func updateBorrowing(controller unsafe.Pointer)

//go:linkname upstreamMetrics k8s.io/apiserver/pkg/util/flowcontrol/metrics.metrics
var upstreamMetrics metrics.Registerables

// gauges returns the values of all gauges by name and priority level. A metric without labels has the level "".
func gauges() map[string]map[string]float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	all := map[string]map[string]float64{}
	for _, family := range families {
		name, found := strings.CutPrefix(family.GetName(), "apiserver_flowcontrol_")
		if !found {
			continue
		}
		values := map[string]float64{}
		for _, metric := range family.Metric {
			level := ""
			for _, label := range metric.Label {
				if label.GetName() == "priority_level" {
					level = label.GetValue()
				}
			}
			values[level] = metric.Gauge.GetValue()
		}
		all[name] = values
	}
	return all
}
