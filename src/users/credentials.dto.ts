import { EmailField, NewEmailField, NEW_PASSWORD, PasswordField } from '../common/fields.js';

/** The body of a registration, also by an operator. */
export class RegistrationRequest {
  @NewEmailField()
  email!: string;

  @PasswordField(NEW_PASSWORD)
  password!: string;
}

/** The body of a login. */
export class CredentialsRequest {
  @EmailField()
  email!: string;

  @PasswordField(NEW_PASSWORD)
  password!: string;
}
