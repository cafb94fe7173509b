/** A hash that another implementation made, and its password. None of it is made by the code that is tested. */
export interface ForeignVector {
  readonly madeBy: string;
  readonly password: string;
  /** As `users import` takes it. */
  readonly hash: string | { readonly secretData: string; readonly credentialData: string };
}

/** bcrypt reads 72 bytes of it, everywhere. */
export const LONG = 'x'.repeat(100);
const PASSWORDS: Readonly<Record<string, string>> = {
  ORDINARY: 'correct horse battery',
  ACCENTED: 'café ☕ au lait',
  LONG,
};

/** A row: who made the hash, of which password, and the hash; for Keycloak, its iterations, salt and value. */
const TABLE = `
  # Debian 12: python3-passlib 1.7.4, python3-argon2 21.1.0, argon2 0~20171227, apache2-utils 2.4.71, php8.2-cli 8.2.36,
  # python3-django 3.2.25. Costs are low, so that the tests are fast.
  # passlib.hash.bcrypt.using(ident='2a', rounds=5).hash(password), and the same with '2b' and '2y'
  passlib $2a$ | ORDINARY | $2a$05$sQja2TH6ekVuwkD6OcscmeNfvp7Rti3Vi3c3hW.4QSmfF0EKcjBfS
  passlib $2b$ | ORDINARY | $2b$05$gXugN50ySoA1kNe3I.XOKu9UVZlqdVseplH2dLobW7tKbEF1GXVOu
  passlib $2y$ | ORDINARY | $2y$05$mq4XN7RPrW8nUjR9jFsBo.oSehM61A09OivnzhQtXtmm0sWaTnoQi
  passlib $2a$ | ACCENTED | $2a$05$.x14mf8HwWdBlhv6pVMpbuV/oyNPK4YQr9SqsFoVOv3kwwFxq5BeC
  passlib $2b$ | ACCENTED | $2b$05$IvD0my5zINwO9TN5VNyzteG4VBfalijQJSdZDMHUII500Tb.Mwo9C
  passlib $2a$ | LONG | $2a$05$1UOcT0RCoeDfr3io8hjSQuhNLZueUA1Ry/WbQ7Nj85M19IxLXMFRq
  passlib $2b$ | LONG | $2b$05$4dfuvduGfU84o7i4Zq0kEeZrTS.tOaYuv.r91o6/v0yJygZu0Sz56
  # htpasswd -nbBC 5 user "$password"
  htpasswd | ORDINARY | $2y$05$ojPk9YnUuv2.JYqFWjuUoeABv8G9Dc3bYyj8pxjz7HWQZhbC04yxq
  htpasswd | ACCENTED | $2y$05$JbhlZPPDqyA1hbywH/SY1e7lPEM1Se.3rY9s4kAMDW0UAhW51BHC2
  htpasswd | LONG | $2y$05$a8avQIgiPT13KeWBckmHXePXf34PT.fllLtt9D4IeCF/Pmf9kqA.G
  # php -r 'echo password_hash($argv[1], PASSWORD_BCRYPT, ["cost" => 5]);' -- "$password"
  PHP | ORDINARY | $2y$05$KEqBMecuHX4WiQz1qAgKpOlfC4YrF5P.cQ5RsUlSxQQOU5OgPeUb6
  # argon2.PasswordHasher(time_cost=2, memory_cost=1024, parallelism=2).hash(password)
  argon2-cffi | ORDINARY | $argon2id$v=19$m=1024,t=2,p=2$n0Je6hKz8ef0JCr5Ng7/qQ$oPYcd+YaPSmafbRcjScptg
  argon2-cffi | ACCENTED | $argon2id$v=19$m=1024,t=2,p=2$raHXiJeJwnR253r4FumFzQ$bOJ/gpeZXznpOBuRkoavBQ
  # passlib.hash.argon2.using(type='ID', rounds=1, memory_cost=256, parallelism=1).hash(password)
  passlib argon2id | LONG | $argon2id$v=19$m=256,t=1,p=1$qJVS6v3/P6fUGoNwjhHCuA$gNxtaUYHIQvYRYPpmqYOeQ
  # printf '%s' "$password" | argon2 saltsaltsalt -id -t 2 -k 512 -p 1 -e
  argon2 | ORDINARY | $argon2id$v=19$m=512,t=2,p=1$c2FsdHNhbHRzYWx0$avVGt5+HC0VN/rlUOv/nBktF2xn8SNwPfzN9Bu7bTjw
  argon2 | ACCENTED | $argon2id$v=19$m=512,t=2,p=1$c2FsdHNhbHRzYWx0$YSxbY2QPuwVwN51OlqjtWoJmstHMTm2Z5pt+QOzOMQQ
  # django.contrib.auth.hashers.PBKDF2PasswordHasher().encode(password, salt, 1000)
  Django | ORDINARY | pbkdf2_sha256$1000$bYW1zEBzB4UenQlninNmEW$cUSaxH80fgYoxqLzrK0uDq9FFFm8wnXYubPk8khlwNs=
  Django | ACCENTED | pbkdf2_sha256$1000$VABUrx8aLzDfl285FHSaWe$DkXKk6AZjiDa+l1HPVT/SqQ6MZ/5Srtum19r+59UefQ=
  Django | LONG | pbkdf2_sha256$1000$fuORuSRYEgoFucgDZdrOcN$3RryLiZxDHry1Oc5MGnnkjUscoIh2rd3Inm0ZVQKSfc=
  # hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations, length) of Python 3, in the form of a realm export
  Keycloak pbkdf2-sha256 | ORDINARY | 27500 IsHMYNkchEPNIPBVEYCkcg== XLTExmz9XCOr0dAAo4y3qDHFlYaHb/iGaVGxtqVQnEeUkmfCvWTbnRJ1i0X1e37/eOxxrzx1HeMTcyQ6i8RCoA==
  Keycloak pbkdf2-sha512 | ACCENTED | 30000 CrUUHcULHHTlfXugLDgpmw== dNuFrDM+yLaWrNoIDLCAQYuWoKCh3YDT5Ly1hCfmXww3tN5CvmpAKH09gg79BvBRCaKju9wYRpvMBlk4MlHwXQ==
  Keycloak pbkdf2-sha256 | LONG | 1000 B9pWktYzlN/k+z4c6rcmIA== eM0Wi7Un7MYc29nvA+UB16RMLjyw/nG8UbVSrIW9/dk=
  # The following: PyPI's passlib 1.7.4 with bcrypt 4.0.1, Django 5.2.19, Werkzeug 3.1.9, on Python 3.11.
  # passlib.hash.pbkdf2_sha256.using(rounds=1000).hash(password), and the same with pbkdf2_sha512 and pbkdf2_sha1
  passlib $pbkdf2-sha256$ | ORDINARY | $pbkdf2-sha256$1000$ak1JCYGw1prTGuM851yL0Q$UPvsTzVMrHRAobZYqEZePj24Tk/30fCqOjR1xmMN3Mk
  passlib $pbkdf2-sha256$ | ACCENTED | $pbkdf2-sha256$1000$3vufU6o15ry31ppz7h0DgA$VrNtJ/a35neMFWcAbare9u6Mp6ac.IFBXQqSnP33YNo
  passlib $pbkdf2-sha512$ | ORDINARY | $pbkdf2-sha512$1000$8z5nrBViLMWYM6bUWksJoQ$Yk7.71o1WJyIRsmHUFuCAVXW41UEE6qffqNpEfKFCSIbQuMN1.0coJNuMsnMzw2Zi4bVKm50MBIim4Nequ1wBw
  passlib $pbkdf2$ | ORDINARY | $pbkdf2$1000$OoewlvL.f2/tHQOA0HpPaQ$/RWpebegbNEu1VGmynaZSyp4scA
  passlib $pbkdf2$ | LONG | $pbkdf2$1000$ntN6L.Vca.09R6iV0lrr/Q$gX5TGlIdwpz8dMNom.zVtaCcVpU
  # passlib.hash.bcrypt_sha256.using(version=1, ident='2a', rounds=5).hash(password), and the same with '2b'
  passlib bcrypt_sha256 v1 2a | ORDINARY | $bcrypt-sha256$2a,5$QUkac3BCVbN5WGgbPQ/qIO$It8Ojk4LIMOeQKVfMhy2mKS/wV6f63y
  passlib bcrypt_sha256 v1 2b | ACCENTED | $bcrypt-sha256$2b,5$EMtDNaOSG6jz5/09kFPPfO$5lwpGaB.xoV.KC7R.briVAIlGyojTf.
  passlib bcrypt_sha256 v1 2b | LONG | $bcrypt-sha256$2b,5$Uk/v1m0Tcfqiab1Ez5c/0.$oatY9BtI9E2JtGZshP7mQ0X35yItNx2
  # passlib.hash.bcrypt_sha256.using(rounds=5).hash(password)
  passlib bcrypt_sha256 v2 | ORDINARY | $bcrypt-sha256$v=2,t=2b,r=5$7DVEi7njwq44.oGPWmMi9O$lJsyVEn.a/pHtxRPHUAwa8Wqh.nsTrS
  passlib bcrypt_sha256 v2 | ACCENTED | $bcrypt-sha256$v=2,t=2b,r=5$4qOA.nN12kFbCVmmsmfQ1u$NyrxN0uVAix7lA9mMI5WR0cxnq9qQLa
  passlib bcrypt_sha256 v2 | LONG | $bcrypt-sha256$v=2,t=2b,r=5$c24lQT5nVsiYiMUxDH/s0u$PrOh3UooOQKkP97Kj7LPJuEzcXlzZ4.
  # werkzeug.security.generate_password_hash(password, 'scrypt:1024:8:1'), and the same with the default and with PBKDF2
  Werkzeug scrypt | ORDINARY | scrypt:1024:8:1$RaVKi23FTtuU6O6Q$fc7f708ab688c6aeee1ea942b0cf564239f2291af96436e66e75839edc0d3a7519297f6d405ba1b34e2ee7142d1e73299fd915dd032179cab6e75c77c4a3971f
  Werkzeug scrypt, default | ACCENTED | scrypt:32768:8:1$TV2aOBmJmrRw23NN$a7a8f1faefcbadea6aac455af8edff44655416b2044dd5f2fda5df5abc61706723fac5e1a673d07aedfd87d961693e1643f96d0d625bb9c443354de462a4dd35
  Werkzeug PBKDF2 | ORDINARY | pbkdf2:sha256:1000$CY1y3tYB75D0qbRy$92319e382ec06b343b23f40ba917f70e91dad01c29562bafc356ca7daae9397b
  Werkzeug PBKDF2 | ACCENTED | pbkdf2:sha512:1000$PJw1B4ASpICgxgBJ$674bb761983354940371afa2b0cb0dd2140258a24a1cf56e077601624c955f204583368861498887119c4b71a2db3848d6d5d9afe62be6fa211755767ae47e95
  Werkzeug PBKDF2 | LONG | pbkdf2:sha1:1000$HubAwhQNFx8u2RK9$e945f154554beeef3e5035b773073f099663199a
  # Argon2PasswordHasher, ScryptPasswordHasher, BCryptSHA256PasswordHasher, BCryptPasswordHasher and PBKDF2SHA1PasswordHasher
  # of django.contrib.auth.hashers, each with low costs as class attributes: hasher.encode(password, hasher.salt())
  Django argon2 | ORDINARY | argon2$argon2id$v=19$m=1024,t=2,p=2$b3dmQ09SWkxkUU00SzY2SjJDZ0hRYw$IhCip7ik51ccezU+rH0A5hGB2NCeh/9zvbQxAUqqJrg
  Django scrypt | ORDINARY | scrypt$1024$tF2NxKDDDYIyyV5IWBsYcL$8$2$+od68BxmwQCPdg9wLHxSBxxMlVKouLwP+w9fkiasyBFDAxcOXB41lXfCY/6msWzaDUCrnFsa2GX2KMrWpridMw==
  Django scrypt | ACCENTED | scrypt$1024$e2UXaCQFwspOIyHk79MZW7$8$2$xXIeaQ7SqqfZOeiV1eZ4/eO4Ri2p3tOmL7TFh/IbcFf8dyIeShF1o8YrfOFrqcpYpDnfMJBQcdk0p6cFVc1ZXw==
  Django bcrypt_sha256 | ORDINARY | bcrypt_sha256$$2b$05$sjKSMK6NISzDSLgkQtFV5ezdeoQy89Tbg0ilWy3glwitR7KD1YYGG
  Django bcrypt_sha256 | ACCENTED | bcrypt_sha256$$2b$05$Mz8NE3tOpbTufozUNIoqEuNLK2avMSRs9Dkh7eg8qimphtJ7Zvd0.
  Django bcrypt_sha256 | LONG | bcrypt_sha256$$2b$05$dat3Zn2BDrOx5FZs4Q2Xee7Yiex/dUYxgAul9U/VBwhtt13qn9tK6
  Django bcrypt | ORDINARY | bcrypt$$2b$05$zr2hAn75G8fsarRRkPwfbOihvdHscfF2a/B2lJ8nXxODQN9Lzaiwm
  Django PBKDF2 with SHA-1 | ORDINARY | pbkdf2_sha1$1000$5y6wQJqCCCzcUXPbydQhd8$3twCT+w20QRu86QP8NQoHnXUihg=`;

const ROWS = TABLE.split('\n').map((row) => row.trim());

export const VECTORS = ROWS.filter((row) => row && !row.startsWith('#')).map((row): ForeignVector => {
  const [madeBy = '', password = '', hash = ''] = row.split(' | ');
  const isKeycloak = madeBy.startsWith('Keycloak');
  return { madeBy, password: PASSWORDS[password]!, hash: isKeycloak ? toCredential(madeBy, hash) : hash };
});

/** In the form of a realm export. */
function toCredential(madeBy: string, hash: string): { secretData: string; credentialData: string } {
  const [hashIterations, salt, value] = hash.split(' ');
  const algorithm = madeBy.slice('Keycloak '.length);
  const additionalParameters = {};
  return {
    secretData: JSON.stringify({ value, salt, additionalParameters }),
    credentialData: JSON.stringify({ hashIterations: Number(hashIterations), algorithm, additionalParameters }),
  };
}
