-- The role that the service connects as: it logs in, and owns nothing. What it may do, `platform-auth migrate
-- --grant-to auth_service` says. Safe to run again; each run asks for the password twice, on the terminal or on standard
-- input. psql sends only its SCRAM verifier, so the password is in no statement and in no log of the server.
-- Run it as a superuser, or as a role with CREATEROLE: the owner of the tables as a rule has neither.
--   psql --set=ON_ERROR_STOP=1 --file service-role.sql
SELECT 'CREATE ROLE auth_service LOGIN'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'auth_service') \gexec
\password auth_service
