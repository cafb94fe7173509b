// Package platformauth verifies the credentials of requests to a service of the platform: keys of other services, keys
// of nodes, access tokens of users. It answers from memory, under a lease that the authentication service hands on: when
// the call that revoked a credential has answered, no verifier accepts it any more, not even one that is cut off.
//
// Guards are middleware of net/http. With gin, a guard is:
//
//	func ginGuard(guard func(http.Handler) http.Handler) gin.HandlerFunc {
//		return func(c *gin.Context) {
//			isAdmitted := false
//			admit := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
//				isAdmitted, c.Request = true, r
//			})
//			guard(admit).ServeHTTP(c.Writer, c.Request)
//			if !isAdmitted {
//				c.Abort()
//			}
//		}
//	}
//
// A refusal is a verdict of the authentication service, or proven by the credential itself; everything else is
// ErrUnavailable, and the caller keeps its credential and tries again.
package platformauth
