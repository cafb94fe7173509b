package org.example;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.http.ResponseEntity;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.http.converter.FormHttpMessageConverter;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.client.endpoint.RestClientTokenExchangeTokenResponseClient;
import org.springframework.security.oauth2.client.endpoint.TokenExchangeGrantRequest;
import org.springframework.security.oauth2.client.http.OAuth2ErrorResponseErrorHandler;
import org.springframework.security.oauth2.client.registration.ClientRegistration;
import org.springframework.security.oauth2.client.registration.ClientRegistrations;
import org.springframework.security.oauth2.core.AuthorizationGrantType;
import org.springframework.security.oauth2.core.OAuth2AccessToken;
import org.springframework.security.oauth2.core.OAuth2AccessToken.TokenType;
import org.springframework.security.oauth2.core.OAuth2AuthorizationException;
import org.springframework.security.oauth2.core.http.converter.OAuth2AccessTokenResponseHttpMessageConverter;
import org.springframework.security.oauth2.jwt.Jwt;
import org.springframework.util.LinkedMultiValueMap;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestClient;

/** Exchanges the user's token for one for the next service (RFC 8693). */
@RestController
class Exchange {
  private final String issuer;
  private final String appId;
  private final String appKey;
  private ClientRegistration registration;

  Exchange(
      @Value("${JWT_ISSUER}") String issuer,
      @Value("${AUTH_APP_ID}") String appId,
      @Value("${AUTH_APP_KEY}") String appKey) {
    this.issuer = issuer;
    this.appId = appId;
    this.appKey = appKey;
  }

  // A service of yours names the next service and the scope itself, and keeps the token.
  @GetMapping("/exchanged")
  ResponseEntity<Map<String, Object>> exchange(
      @AuthenticationPrincipal Jwt user, @RequestParam String audience, @RequestParam String scope) {
    // As a Jwt, Spring would send it with the type of any JWT.
    var token =
        new OAuth2AccessToken(TokenType.BEARER, user.getTokenValue(), user.getIssuedAt(), user.getExpiresAt());
    try {
      var request = new TokenExchangeGrantRequest(findRegistration(), token, null);
      var issued = makeClient(audience, scope).getTokenResponse(request).getAccessToken();
      return ResponseEntity.ok(
          Map.of("access_token", issued.getTokenValue(), "scope", String.join(" ", issued.getScopes())));
    } catch (OAuth2AuthorizationException refusal) {
      var error = refusal.getError().getErrorCode();
      // Only the user's token can be wrong with a request that is always built in the same way.
      return ResponseEntity.status(error.equals("invalid_request") ? 401 : 503).body(Map.of("error", error));
    } catch (RuntimeException outage) {
      return ResponseEntity.status(503).build();
    }
  }

  /** Read at the first exchange, so that the service starts while platform-auth is away. */
  private synchronized ClientRegistration findRegistration() {
    if (registration == null)
      registration =
          ClientRegistrations.fromIssuerLocation(issuer)
              .clientId(appId)
              .clientSecret(appKey)
              .authorizationGrantType(AuthorizationGrantType.TOKEN_EXCHANGE)
              .build();
    return registration;
  }

  private static RestClientTokenExchangeTokenResponseClient makeClient(String audience, String scope) {
    // Without these, Spring waits for an answer without an end.
    var requests = new SimpleClientHttpRequestFactory();
    requests.setConnectTimeout(Duration.ofSeconds(3));
    requests.setReadTimeout(Duration.ofSeconds(3));
    var client = new RestClientTokenExchangeTokenResponseClient();
    client.setRestClient(
        RestClient.builder()
            .requestFactory(requests)
            .configureMessageConverters(
                converters ->
                    converters
                        .addCustomConverter(new FormHttpMessageConverter())
                        .addCustomConverter(new OAuth2AccessTokenResponseHttpMessageConverter()))
            .defaultStatusHandler(new OAuth2ErrorResponseErrorHandler())
            .build());
    // Spring sends neither by itself.
    client.addParametersConverter(
        request ->
            new LinkedMultiValueMap<>(Map.of("audience", List.of(audience), "scope", List.of(scope))));
    return client;
  }
}
