/** Code of the errors that `refuse_1` raises. */
export const refusalCode = "SP001";

/**
 * `refuse_1` fails, so that a statement can end the transaction of which it is a part. Its text is
 * the reason.
 */
export const refusals = `
CREATE OR REPLACE FUNCTION refuse_1(reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = '${refusalCode}', MESSAGE = reason;
END $$;
`;
