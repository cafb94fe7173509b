package org.example;

import jakarta.servlet.http.HttpServletResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.http.client.support.BasicAuthenticationInterceptor;
import org.springframework.http.client.SimpleClientHttpRequestFactory;
import org.springframework.security.authentication.AuthenticationServiceException;
import org.springframework.security.config.ObjectPostProcessor;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configurers.oauth2.server.resource.OAuth2ResourceServerConfigurer;
import org.springframework.security.oauth2.core.DelegatingOAuth2TokenValidator;
import org.springframework.security.oauth2.jose.jws.SignatureAlgorithm;
import org.springframework.security.oauth2.jwt.JwtAudienceValidator;
import org.springframework.security.oauth2.jwt.JwtClaimValidator;
import org.springframework.security.oauth2.jwt.JwtIssuerValidator;
import org.springframework.security.oauth2.jwt.JwtTimestampValidator;
import org.springframework.security.oauth2.jwt.JwtTypeValidator;
import org.springframework.security.oauth2.jwt.NimbusJwtDecoder;
import org.springframework.security.oauth2.server.resource.introspection.SpringOpaqueTokenIntrospector;
import org.springframework.security.oauth2.server.resource.web.BearerTokenAuthenticationEntryPoint;
import org.springframework.security.oauth2.server.resource.web.authentication.BearerTokenAuthenticationFilter;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.security.web.authentication.AuthenticationFailureHandler;
import org.springframework.web.client.RestTemplate;

@Configuration
class Security {
  /** Asks platform-auth about each token, and refuses one of a session that ended. */
  @Bean
  @Order(1)
  SecurityFilterChain introspected(
      HttpSecurity http,
      @Value("${INTROSPECTION_URI}") String uri,
      @Value("${AUTH_APP_ID}") String appId,
      @Value("${AUTH_APP_KEY}") String appKey)
      throws Exception {
    // Without these, Spring waits for an answer without an end.
    var requests = new SimpleClientHttpRequestFactory();
    requests.setConnectTimeout(Duration.ofSeconds(3));
    requests.setReadTimeout(Duration.ofSeconds(3));
    var client = new RestTemplate(requests);
    client.getInterceptors().add(new BasicAuthenticationInterceptor(appId, appKey));
    var introspector = new SpringOpaqueTokenIntrospector(uri, client);
    return http.securityMatcher("/introspected")
        .authorizeHttpRequests(rules -> rules.anyRequest().authenticated())
        .oauth2ResourceServer(server -> tellOutages(server.opaqueToken(opaque -> opaque.introspector(introspector))))
        .build();
  }

  /** Other services call on behalf of users, with tokens that are for this service alone (RFC 8693). */
  @Bean
  @Order(2)
  SecurityFilterChain delegated(
      HttpSecurity http,
      @Value("${AUTH_JWKS_URL}") String keys,
      @Value("${JWT_ISSUER}/delegated") String issuer,
      @Value("${SERVICE_NAME}") String name)
      throws Exception {
    // The user's own tokens have another issuer and type, and are refused here.
    var decoder =
        NimbusJwtDecoder.withJwkSetUri(keys).jwsAlgorithm(SignatureAlgorithm.ES256).validateType(false).build();
    decoder.setJwtValidator(
        new DelegatingOAuth2TokenValidator<>(
            List.of(
                new JwtTimestampValidator(),
                new JwtTypeValidator("at+jwt"),
                new JwtIssuerValidator(issuer),
                // A token for another service may have leaked there.
                new JwtAudienceValidator(name),
                new JwtClaimValidator<Map<String, Object>>("act", act -> act != null && act.get("sub") != null))));
    return http.securityMatcher("/delegated")
        .authorizeHttpRequests(rules -> rules.anyRequest().hasAuthority("SCOPE_documents:read"))
        .oauth2ResourceServer(server -> tellOutages(server.jwt(jwt -> jwt.decoder(decoder))))
        .build();
  }

  /** Verifies the signature with the JWKS, as application.yaml says. */
  @Bean
  SecurityFilterChain verified(HttpSecurity http) throws Exception {
    return http.authorizeHttpRequests(rules -> rules.anyRequest().authenticated())
        .oauth2ResourceServer(server -> tellOutages(server.jwt(jwt -> {})))
        .build();
  }

  /** Spring throws when it could not look, and its page of errors then answers 401, so that the client throws a good token away. */
  private static void tellOutages(OAuth2ResourceServerConfigurer<HttpSecurity> server) {
    var refuse = new BearerTokenAuthenticationEntryPoint();
    AuthenticationFailureHandler onFailure =
        (request, response, failure) -> {
          if (failure instanceof AuthenticationServiceException) {
            response.setHeader("Retry-After", "1");
            response.setStatus(HttpServletResponse.SC_SERVICE_UNAVAILABLE);
          } else {
            refuse.commence(request, response, failure);
          }
        };
    server.withObjectPostProcessor(
        new ObjectPostProcessor<BearerTokenAuthenticationFilter>() {
          @Override
          public <F extends BearerTokenAuthenticationFilter> F postProcess(F filter) {
            filter.setAuthenticationFailureHandler(onFailure);
            return filter;
          }
        });
  }
}
