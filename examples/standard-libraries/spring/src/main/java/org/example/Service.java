package org.example;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.security.core.Authentication;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.jwt.Jwt;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** A service that verifies access tokens with Spring Security. docs/integrate-standard-libraries.md says what that cannot do. */
@SpringBootApplication
@RestController
public class Service {
  public static void main(String[] words) {
    SpringApplication.run(Service.class, words);
  }

  @GetMapping({"/", "/introspected"})
  public String readUser(Authentication user) {
    return user.getName();
  }

  @GetMapping("/delegated")
  public String readCaller(@AuthenticationPrincipal Jwt token) {
    return token.getSubject() + " by " + token.getClaimAsMap("act").get("sub");
  }
}
