package platformauthotel_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"platform-auth.example/clients/go/platformauthotel"
	"platform-auth.example/clients/go/platformauthtest"
)

func TestVerdictsAreCountedByDoor(t *testing.T) {
	service := platformauthtest.NewService()
	auth := service.Verifier(t, "recipes")
	reader := metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	if err := platformauthotel.Observe(meter, auth); err != nil {
		t.Fatal(err)
	}
	node := service.IssueNode(platformauthtest.Node{})
	for range 2 {
		if _, err := auth.VerifyNode(t.Context(), node.Header); err != nil {
			t.Fatal(err)
		}
	}
	var found metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	counted := map[attribute.Set]int64{}
	for _, point := range found.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		counted[point.Attributes] = point.Value
	}
	accepted := attribute.NewSet(attribute.String("door", "node"), attribute.String("verdict", "accepted"))
	refused := attribute.NewSet(attribute.String("door", "node"), attribute.String("verdict", "refused"))
	if counted[accepted] != 2 || counted[refused] != 0 || len(counted) != 9 {
		t.Errorf("counted %v", counted)
	}
}
