// When a credential needs the attention of an operator: the same for `doctor`, `status`, `map` and the lists.

export const UNUSED_DAYS = 30;
export const EXPIRY_NOTICE_DAYS = 14;
