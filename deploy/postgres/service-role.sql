-- The role that the service connects as: it logs in, and owns nothing. What it may do, `platform-auth migrate
-- --grant-to auth_service` says. Safe to run again; each run sets the password.
--   psql --set=ON_ERROR_STOP=1 --set=password=… --file service-role.sql
SELECT 'CREATE ROLE auth_service'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'auth_service') \gexec
ALTER ROLE auth_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
