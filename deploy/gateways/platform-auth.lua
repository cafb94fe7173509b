-- The action `lua.platform_auth` of haproxy.cfg: asks platform-auth about the credential of a request, at the door that
-- txn.door names. Sets the identity headers and txn.is_authorized when it is valid, answers a refusal itself, and leaves
-- everything else to the configuration, which answers 503.

local ADDRESS = "127.0.0.1:7790" -- `listen platform_auth`

local IDENTITY = {
    node = { "x-auth-door", "x-auth-node-id", "x-auth-household-id" },
    app = { "x-auth-door", "x-auth-app-id", "x-auth-caller" },
    user = { "x-auth-door", "x-auth-user-id", "x-auth-session-id", "x-auth-email" },
}

-- These headers are set only when the answer has them, and they are not empty.
local OPTIONAL = { node = {}, app = { "x-auth-scopes" }, user = { "x-auth-amr", "x-auth-households" } }

local FORWARDED = {
    node = { "x-api-key", "x-platform-target" },
    app = { "x-platform-app-id", "x-platform-app-key", "x-platform-target", "x-platform-scope" },
    user = { "authorization" },
}

-- X-Forwarded-For is the address that the configuration has set.
local CONTEXT = { "x-request-id", "traceparent", "x-forwarded-for" }

local CHALLENGES = {
    node = 'NodeKey realm="platform-auth"',
    app = 'PlatformApp realm="platform-auth"',
    user = 'Bearer realm="platform-auth"',
}

-- A repeated header stays repeated, because the service refuses a doubled credential.
local function copy_headers(from, names, into)
    for _, name in ipairs(names) do
        local values = from[name]
        if values then
            into[name] = {}
            for index = 0, #values do
                table.insert(into[name], values[index])
            end
        end
    end
end

local function first(headers, name)
    local values = headers and headers[name]
    return values and (values[0] or values[1])
end

local function starts_with(text, start)
    return text ~= nil and text:sub(1, #start) == start
end

local LACKS_SCOPE = CHALLENGES.app .. ', error="insufficient_scope"'

-- A 401 or 403 without the door's own challenge comes from another server, and is not a verdict. 400 and 431 mean that the
-- credential cannot be read.
local function is_refusal(answer, door)
    if answer.status == 401 then
        return starts_with(first(answer.headers, "www-authenticate"), CHALLENGES[door])
    end
    if answer.status == 403 then
        return door == "app" and starts_with(first(answer.headers, "www-authenticate"), LACKS_SCOPE)
    end
    return (answer.status == 400 or answer.status == 431)
        and starts_with(first(answer.headers, "content-type"), "application/problem+json")
end

local function authorize(txn, door)
    local headers = { host = { "platform-auth" } }
    local presented = txn.http:req_get_headers()
    copy_headers(presented, FORWARDED[door], headers)
    copy_headers(presented, CONTEXT, headers)
    return core.httpclient():get({ url = "http://" .. ADDRESS .. "/internal/authorize/" .. door, headers = headers })
end

core.register_action("platform_auth", { "http-req" }, function(txn)
    local door = txn:get_var("txn.door")
    local answer = authorize(txn, door)
    if answer.status == 200 and first(answer.headers, "x-auth-door") == door then
        for _, name in ipairs(IDENTITY[door]) do
            local value = first(answer.headers, name)
            if not value then
                return
            end
            txn.http:req_set_header(name, value)
        end
        for _, name in ipairs(OPTIONAL[door]) do
            local value = first(answer.headers, name)
            if value and value ~= "" then
                txn.http:req_set_header(name, value)
            end
        end
        txn:set_var("txn.is_authorized", true)
    elseif is_refusal(answer, door) then
        local reply = txn:reply({ status = answer.status, body = answer.body })
        for _, name in ipairs({ "content-type", "www-authenticate", "x-request-id", "cache-control" }) do
            local value = first(answer.headers, name)
            if value then
                reply:add_header(name, value)
            end
        end
        txn:done(reply)
    end
end, 0)
