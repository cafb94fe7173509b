import type { MailKind } from './mail-kinds.js';
import type { Template } from './template.js';

/** The built-in texts. docs/operations/mail.md tells how to replace them. */
export const DEFAULT_TEMPLATES: Readonly<Record<MailKind, Template>> = {
  password_reset: {
    subject: 'Reset your password',
    text: `A new password was requested for the account {{email}}.

To choose one, open this link within {{minutes}} minutes:

{{link}}

The link works once. If you did not ask for it, ignore this mail: your password stays as it is.
`,
    html: `<p>A new password was requested for the account {{email}}.</p>
<p><a href="{{link}}">Choose a new password</a> within {{minutes}} minutes.</p>
<p>The link works once. If you did not ask for it, ignore this mail: your password stays as it is.</p>
`,
  },
  email_verification: {
    subject: 'Confirm your e-mail address',
    text: `Please confirm that {{email}} is your e-mail address. Open this link within {{minutes}} minutes:

{{link}}

The link works once. If you have no account with us, ignore this mail.
`,
    html: `<p>Please confirm that {{email}} is your e-mail address.</p>
<p><a href="{{link}}">Confirm the address</a> within {{minutes}} minutes.</p>
<p>The link works once. If you have no account with us, ignore this mail.</p>
`,
  },
  email_change: {
    subject: 'Confirm your new e-mail address',
    text: `{{email}} was given as the new e-mail address of an account. To confirm it, open this link within {{minutes}} minutes:

{{link}}

The link works once. If you did not ask for it, ignore this mail: the account keeps its address.
`,
    html: `<p>{{email}} was given as the new e-mail address of an account.</p>
<p><a href="{{link}}">Confirm the new address</a> within {{minutes}} minutes.</p>
<p>The link works once. If you did not ask for it, ignore this mail: the account keeps its address.</p>
`,
  },
  email_change_notice: {
    subject: 'Your e-mail address is about to change',
    text: `Another e-mail address was given for the account {{email}}, by a person who knows its password. The change takes
effect when the new address is confirmed.

If that was not you, change your password now: that stops the change.
`,
    html: `<p>Another e-mail address was given for the account {{email}}, by a person who knows its password. The change
takes effect when the new address is confirmed.</p>
<p>If that was not you, change your password now: that stops the change.</p>
`,
  },
};
