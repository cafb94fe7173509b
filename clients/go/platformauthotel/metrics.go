// Package platformauthotel reports the verdicts of a verifier to OpenTelemetry.
package platformauthotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	platformauth "platform-auth.example/clients/go"
)

// Observe counts verdicts as platform_auth.verdicts, by door and verdict, as the verifiers of other languages do. It
// reads counters that the verifier keeps anyway, and only when metrics are collected.
func Observe(meter metric.Meter, auth *platformauth.Verifier) error {
	counter, err := meter.Int64ObservableCounter("platform_auth.verdicts",
		metric.WithDescription("Verdicts on credentials, by door"))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		for _, door := range []platformauth.Door{platformauth.DoorApp, platformauth.DoorNode, platformauth.DoorUser} {
			for _, verdict := range []platformauth.Verdict{
				platformauth.Accepted, platformauth.Refused, platformauth.Unavailable,
			} {
				observer.ObserveInt64(counter, int64(auth.Count(door, verdict)), metric.WithAttributes(
					attribute.String("door", string(door)), attribute.String("verdict", string(verdict))))
			}
		}
		return nil
	}, counter)
	return err
}
