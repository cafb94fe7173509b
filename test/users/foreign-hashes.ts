/** A hash that another implementation made, and its password. None of it is made by the code that is tested. */
export interface ForeignVector {
  readonly madeBy: string;
  readonly password: string;
  /** As `users import` takes it. */
  readonly hash: string | { readonly secretData: string; readonly credentialData: string };
}

const ORDINARY = 'correct horse battery';
const ACCENTED = 'café ☕ au lait';
/** bcrypt reads 72 bytes of it, everywhere. */
export const LONG = 'x'.repeat(100);

// Debian 12: python3-passlib 1.7.4, python3-argon2 21.1.0, argon2 0~20171227, apache2-utils 2.4.71, php8.2-cli 8.2.36,
// python3-django 3.2.25. Costs are low, so that the tests are fast.
export const VECTORS: readonly ForeignVector[] = [
  // passlib.hash.bcrypt.using(ident='2a', rounds=5).hash(password), and the same with '2b' and '2y'
  vector('passlib $2a$', ORDINARY, '$2a$05$sQja2TH6ekVuwkD6OcscmeNfvp7Rti3Vi3c3hW.4QSmfF0EKcjBfS'),
  vector('passlib $2b$', ORDINARY, '$2b$05$gXugN50ySoA1kNe3I.XOKu9UVZlqdVseplH2dLobW7tKbEF1GXVOu'),
  vector('passlib $2y$', ORDINARY, '$2y$05$mq4XN7RPrW8nUjR9jFsBo.oSehM61A09OivnzhQtXtmm0sWaTnoQi'),
  vector('passlib $2a$', ACCENTED, '$2a$05$.x14mf8HwWdBlhv6pVMpbuV/oyNPK4YQr9SqsFoVOv3kwwFxq5BeC'),
  vector('passlib $2b$', ACCENTED, '$2b$05$IvD0my5zINwO9TN5VNyzteG4VBfalijQJSdZDMHUII500Tb.Mwo9C'),
  vector('passlib $2a$', LONG, '$2a$05$1UOcT0RCoeDfr3io8hjSQuhNLZueUA1Ry/WbQ7Nj85M19IxLXMFRq'),
  vector('passlib $2b$', LONG, '$2b$05$4dfuvduGfU84o7i4Zq0kEeZrTS.tOaYuv.r91o6/v0yJygZu0Sz56'),
  // htpasswd -nbBC 5 user "$password"
  vector('htpasswd', ORDINARY, '$2y$05$ojPk9YnUuv2.JYqFWjuUoeABv8G9Dc3bYyj8pxjz7HWQZhbC04yxq'),
  vector('htpasswd', ACCENTED, '$2y$05$JbhlZPPDqyA1hbywH/SY1e7lPEM1Se.3rY9s4kAMDW0UAhW51BHC2'),
  vector('htpasswd', LONG, '$2y$05$a8avQIgiPT13KeWBckmHXePXf34PT.fllLtt9D4IeCF/Pmf9kqA.G'),
  // php -r 'echo password_hash($argv[1], PASSWORD_BCRYPT, ["cost" => 5]);' -- "$password"
  vector('PHP', ORDINARY, '$2y$05$KEqBMecuHX4WiQz1qAgKpOlfC4YrF5P.cQ5RsUlSxQQOU5OgPeUb6'),
  // argon2.PasswordHasher(time_cost=2, memory_cost=1024, parallelism=2).hash(password)
  vector('argon2-cffi', ORDINARY, '$argon2id$v=19$m=1024,t=2,p=2$n0Je6hKz8ef0JCr5Ng7/qQ$oPYcd+YaPSmafbRcjScptg'),
  vector('argon2-cffi', ACCENTED, '$argon2id$v=19$m=1024,t=2,p=2$raHXiJeJwnR253r4FumFzQ$bOJ/gpeZXznpOBuRkoavBQ'),
  // passlib.hash.argon2.using(type='ID', rounds=1, memory_cost=256, parallelism=1).hash(password)
  vector('passlib argon2id', LONG, '$argon2id$v=19$m=256,t=1,p=1$qJVS6v3/P6fUGoNwjhHCuA$gNxtaUYHIQvYRYPpmqYOeQ'),
  // printf '%s' "$password" | argon2 saltsaltsalt -id -t 2 -k 512 -p 1 -e
  vector(
    'argon2',
    ORDINARY,
    '$argon2id$v=19$m=512,t=2,p=1$c2FsdHNhbHRzYWx0$avVGt5+HC0VN/rlUOv/nBktF2xn8SNwPfzN9Bu7bTjw',
  ),
  vector(
    'argon2',
    ACCENTED,
    '$argon2id$v=19$m=512,t=2,p=1$c2FsdHNhbHRzYWx0$YSxbY2QPuwVwN51OlqjtWoJmstHMTm2Z5pt+QOzOMQQ',
  ),
  // django.contrib.auth.hashers.PBKDF2PasswordHasher().encode(password, salt, 1000)
  vector('Django', ORDINARY, 'pbkdf2_sha256$1000$bYW1zEBzB4UenQlninNmEW$cUSaxH80fgYoxqLzrK0uDq9FFFm8wnXYubPk8khlwNs='),
  vector('Django', ACCENTED, 'pbkdf2_sha256$1000$VABUrx8aLzDfl285FHSaWe$DkXKk6AZjiDa+l1HPVT/SqQ6MZ/5Srtum19r+59UefQ='),
  vector('Django', LONG, 'pbkdf2_sha256$1000$fuORuSRYEgoFucgDZdrOcN$3RryLiZxDHry1Oc5MGnnkjUscoIh2rd3Inm0ZVQKSfc='),
  // hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations, length) of Python 3, in the form of a realm export
  keycloak('pbkdf2-sha256', 27_500, ORDINARY, {
    value: 'XLTExmz9XCOr0dAAo4y3qDHFlYaHb/iGaVGxtqVQnEeUkmfCvWTbnRJ1i0X1e37/eOxxrzx1HeMTcyQ6i8RCoA==',
    salt: 'IsHMYNkchEPNIPBVEYCkcg==',
  }),
  keycloak('pbkdf2-sha512', 30_000, ACCENTED, {
    value: 'dNuFrDM+yLaWrNoIDLCAQYuWoKCh3YDT5Ly1hCfmXww3tN5CvmpAKH09gg79BvBRCaKju9wYRpvMBlk4MlHwXQ==',
    salt: 'CrUUHcULHHTlfXugLDgpmw==',
  }),
  keycloak('pbkdf2-sha256', 1_000, LONG, {
    value: 'eM0Wi7Un7MYc29nvA+UB16RMLjyw/nG8UbVSrIW9/dk=',
    salt: 'B9pWktYzlN/k+z4c6rcmIA==',
  }),
];

function vector(madeBy: string, password: string, hash: string): ForeignVector {
  return { madeBy, password, hash };
}

function keycloak(
  algorithm: string,
  hashIterations: number,
  password: string,
  secret: { value: string; salt: string },
): ForeignVector {
  const additionalParameters = {};
  const secretData = JSON.stringify({ ...secret, additionalParameters });
  const credentialData = JSON.stringify({ hashIterations, algorithm, additionalParameters });
  return { madeBy: `Keycloak ${algorithm}`, password, hash: { secretData, credentialData } };
}
