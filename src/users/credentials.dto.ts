import { EmailField } from '../common/email.js';
import { PasswordField } from '../common/fields.js';

/** The body of registration and login. */
export class CredentialsRequest {
  @EmailField()
  email!: string;

  @PasswordField()
  password!: string;
}
