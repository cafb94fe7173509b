/**
 * The pages of enrolment codes: an operator issues one for a device, hands it to the person who installs the device, and
 * sees who used it. The code and its QR code are shown once.
 */
import type { Request } from 'express';
import type { VNode } from 'preact';
import {
  IssueEnrolmentRequest,
  type IssuedEnrolmentResponse,
  type NodeEnrolmentResponse,
} from '../api/admin/enrolments.admin.controller.js';
import { DEFAULT_ENROLMENT_MINUTES, MAX_ENROLMENT_MINUTES } from '../api/households/household.dto.js';
import { drawQrCode } from '../domain/second-factors/totp.js';
import { KEY_KINDS } from '../foundation/common/key-kinds.js';
import { Environment } from '../foundation/config/environment.js';
import { AdminApi } from './admin-api.js';
import { Confirmations } from './confirmations.js';
import { ConsolePages } from './console-pages.js';
import { Ago, Moment } from './moments.js';
import { listFields, showValue } from './properties.js';
import { ResourcePages } from './resource-pages.js';
import type { Description, ResourceType } from './resource-types.js';
import { Named, Secret } from './copyable.js';
import type { Cells } from './tables.js';
import type { FieldProps } from './fields.js';

export const ENROLMENTS_ADDRESS = '/console/enrolments';

const HINTS = {
  household_id: 'A UUID.',
  targets: 'Services that accept the key of the device. Empty: all.',
  expires_in_minutes: `For how long the code can be used, at most ${MAX_ENROLMENT_MINUTES}.`,
};

const ENROLMENTS: ResourceType<NodeEnrolmentResponse, IssuedEnrolmentResponse> = {
  address: ENROLMENTS_ADDRESS,
  title: 'Enrolment codes',
  noun: 'enrolment code',
  scope: 'nodes',
  routes: ({ enrolments }) => ({
    list: enrolments.listEnrolments,
    find: enrolments.getEnrolment,
    issue: enrolments.issueEnrolment,
  }),
  filters: [
    { label: 'Household', name: 'household_id' },
    { label: 'State', name: 'open', options: { '': 'all, until 30 days after their end', true: 'open' } },
  ],
  get fields() {
    const minutes = { label: 'Minutes', type: 'number', value: String(DEFAULT_ENROLMENT_MINUTES) } as const;
    return listFields(IssueEnrolmentRequest, HINTS).map((field) =>
      field.name === 'expires_in_minutes' ? { ...field, ...minutes } : field,
    );
  },
  submit: 'Issue the code',
  head: ['State', 'Targets', 'Until'],
  nameLabel: '',
  actions: {
    cancel: {
      title: 'Cancel',
      effect: 'The code is unknown from the next call on. A device that has used it keeps its key: revoke that node.',
      route: ({ enrolments: { cancelEnrolment } }) =>
        Object.assign(async (request: Request, id: string) => cancelEnrolment(request, id), cancelEnrolment),
      isHarmless: true,
    },
  },
  groupedBy: 'household_id',
  toId: ({ enrolment_id }) => enrolment_id,
  toName: KEY_KINDS.node.toOwner,
};

@ConsolePages(ENROLMENTS_ADDRESS.slice(1))
export class EnrolmentPages extends ResourcePages<NodeEnrolmentResponse, IssuedEnrolmentResponse> {
  constructor(
    api: AdminApi,
    confirmations: Confirmations,
    private readonly environment: Environment,
  ) {
    super(api, ENROLMENTS, confirmations);
  }

  /** An operator may empty the targets. */
  protected override listNewFields(): readonly FieldProps[] {
    const value = this.environment.nodeTargets?.join(' ');
    return super.listNewFields().map((field) => (field.name === 'targets' ? { ...field, value } : field));
  }

  /** Offers the services that app credentials name, and the household from whose page the operator came. */
  protected override async offerKnown(request: Request, fields: readonly FieldProps[]) {
    const { services } = await this.api.findSuggestions(request);
    const known = [...new Set([...(this.environment.nodeTargets ?? []), ...services])].sort();
    const household = request.query.household_id as string | undefined;
    return fields.map((field) => {
      if (field.name === 'targets') return { ...field, known };
      return field.name === 'household_id' && household !== undefined ? { ...field, value: household } : field;
    });
  }

  protected toCells(code: NodeEnrolmentResponse): Cells {
    return [<State of={code} />, <bdi>{showValue(code.targets) || 'all'}</bdi>, <Ago at={code.expires_at} />];
  }

  protected isPossible(_action: string, { state }: NodeEnrolmentResponse): boolean {
    return state === 'open';
  }

  protected async describe(request: Request, _id: string, code: NodeEnrolmentResponse): Promise<Description> {
    const { household_id: household, issued_by: issuer, node_id: node, used_at: usedAt } = code;
    const names = await this.api.names.findNames([household, node]);
    const { users, households } = this.api.bindTo(request);
    const person = users.getUserAsAdmin.isAllowed ? `/console/users/${issuer}` : undefined;
    const home = households.getHousehold.isAllowed ? `/console/households/${household}` : undefined;
    return {
      facts: [
        ['State', <State of={code} />],
        ['Household', <Named id={household} name={names.get(household)} address={home} />],
        ['Room', <bdi>{code.room}</bdi>],
        ['Name', <bdi>{code.name}</bdi>],
        ['Targets', <bdi>{showValue(code.targets) || 'all'}</bdi>],
        ['Issued', <Ago at={code.created_at} />],
        ['By', issuer === null ? 'an operator' : <Named id={issuer} name={undefined} address={person} />],
        ['Until', <Moment at={code.expires_at} />],
        ['Used', <Ago at={usedAt} />],
        ...(node === null
          ? []
          : [['Node', <Named id={node} name={names.get(node)} address={`/console/nodes/${node}`} />] as const]),
      ],
      use: code.state === 'open' ? 'No device has used it.' : `It is ${code.state}.`,
    };
  }

  protected renderIssued(issued: IssuedEnrolmentResponse): VNode {
    const call = `curl $URL/api/v0/nodes/enrol -H 'Content-Type: application/json' -H "Idempotency-Key: $(uuidgen)" -d '{"code":"${issued.code}"}'`;
    return (
      <>
        <p role="note">
          The code is shown only here, and only now. It works once, until <Moment at={issued.expires_at} />, in any
          letter case.
        </p>
        <div class="qr" role="img" aria-label="The code as a QR code" dangerouslySetInnerHTML={toHtml(issued.code)} />
        <Secret name="Code" text={issued.code} />
        <p>The device sends the code and keeps its key. On the device, with URL as the address of this service:</p>
        <Secret
          name="With clients/node"
          text={`python3 platform_auth_node.py --file node.json enrol --url $URL ${issued.code}`}
        />
        <Secret name="With curl" text={call} />
        <p>
          <a href={this.toAddressOf(issued)}>
            Has <bdi>{this.type.toName(issued)}</bdi> used it?
          </a>
        </p>
      </>
    );
  }
}

const toHtml = (code: string) => ({ __html: drawQrCode(code) });

function State({ of: { state } }: { of: NodeEnrolmentResponse }): VNode {
  return <span class={state === 'open' ? 'good' : undefined}>{state}</span>;
}
