import { EmailField } from '../common/email.js';
import { NEW_PASSWORD, PasswordField } from '../common/fields.js';

/** The body of registration and login. */
export class CredentialsRequest {
  @EmailField()
  email!: string;

  @PasswordField(NEW_PASSWORD)
  password!: string;
}
