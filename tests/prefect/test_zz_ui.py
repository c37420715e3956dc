import pytest, subprocess, sys
from irontree.flows import runs
from tests.prefect.toys import make_toy, FRIENDLY
@pytest.mark.timeout(400)
def test_x(tmp_path, client):
    toy=make_toy(tmp_path, client, FRIENDLY, "issue"); toy.publish(); r=toy.start(); toy.drive(r)
    q=toy.asked(r); print(q.schema)
    click="[...document.querySelectorAll('button')].filter(b=>b.innerText.trim()=='Resume')[0].click()"
    subprocess.run([sys.executable,"/tmp/ui.py",runs.url_for(r),"/tmp/ui1.png","document.body.innerText.slice(0,300)",click,"[...document.querySelectorAll('input,textarea,select,[role=combobox]')].map(e=>[e.tagName,e.type,e.value,e.placeholder])",
      """(()=>{const s=[...document.querySelectorAll('select')].filter(s=>[...s.options].some(o=>o.text.includes('accept and publish')))[0]; const v=[...s.options].filter(o=>o.text.includes('accept and publish'))[0].value; s.value=v; s.dispatchEvent(new Event('change',{bubbles:true})); s.dispatchEvent(new Event('input',{bubbles:true})); const ta=document.querySelectorAll('textarea')[0]; ta.value='Ada'; ta.dispatchEvent(new Event('input',{bubbles:true})); ta.dispatchEvent(new Event('change',{bubbles:true})); return [v, ta.value]})()""",
      "[...document.querySelectorAll('button')].filter(b=>b.innerText.trim()=='Submit')[0].click()"],check=True)
    import time; time.sleep(2)
    rows={row.key:row.value for row in client.filter_flow_run_input(r,"",200,set())}; print(rows.get("suspended-"+q.key+"-response"))
    print(runs.state(client, r))
